// Package apierror classifies the errors of requests to API servers.
//
// A status code alone does not tell what to do: a 403 can be a policy, a quota, a namespace that is being deleted, or
// rights that have not arrived yet. So the class follows from code, reason, causes, message and operation. Messages are
// read only where Kubernetes gives no other sign, and only to tell kinds of refusals apart.
//
// Class.Refusal says whether the server refused this very object, Class.Unknown whether the request may have been
// carried out all the same. Callers decide by these two, and by a single class where they must.
package apierror
