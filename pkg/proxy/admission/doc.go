// Package admission is the webhook that makes elected pods proxy pods when they are created.
//
// The rules are translate.Proxy's; this package carries them out on the JSON of the request. The patch names only the
// fields that change, so fields that this build's Kubernetes libraries do not know survive, beside those fields and
// within tolerations that stay. Only what is moved from the spec to the delegate has to be understood, and loses
// unknown fields.
//
// The handler writes nothing, so that dry runs are safe and every replica can serve it. It reads nothing but the
// request, except for pods with generic ephemeral volumes: StorageClasses, from the API server.
package admission
