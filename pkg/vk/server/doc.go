// Package server is the kubelet API of all virtual nodes. API servers request the logs of proxies and run commands in
// them here. The server forwards each request to the API server of the target that runs the delegate, with the source's
// identity in that target.
//
// # Access
//
// The server authenticates and authorises callers as a kubelet does. It authenticates them by a client certificate of
// the cluster's client CA, or by a token (TokenReview); there are no anonymous callers. It authorises them by
// SubjectAccessReview for the proxy's node: on nodes/log or nodes/proxy for logs, on nodes/proxy for exec, attach and
// port-forward, and on nodes/metrics, nodes/stats, nodes/pods and nodes/healthz for the paths of these names.
//
// In one point the server is stricter than a kubelet: exec, attach and port-forward always need the verb create. With a
// kubelet, the right to read nodes/proxy is the right to run commands. This protects only against direct callers.
// Through the node proxy of an API server, the API server is the caller, and the right get on nodes/proxy is enough.
//
// No kubelet has the path /explain/{namespace}/{pod}. It returns everything that this replica's scheduler knows of a
// pod, placed or not. The answer can name any target, so the caller needs the right get on nodes/proxy of all nodes.
//
// The server forwards only the headers of a short list, so the caller's credentials never reach the target.
//
// # Forwarding
//
// Requests go through httputil.ReverseProxy over the transport for streams of package wire, which speaks HTTP/1.1. It
// refuses redirects, and bounds the bodies of errors. Per target and in all, so many streams can be open as
// wire.Streams allows. Beyond that, the answer is 429. Apimachinery's
// UpgradeAwareHandler carries SPDY and WebSocket, too, but dials by itself. So it ignores the proxy of a kubeconfig,
// and does not verify the server if the kubeconfig leaves the CA to the system.
//
// After an upgrade, SPDY and WebSocket end streams by halves within the connection. The connections of the caller and
// of the target end together, as those of API servers do.
//
// Streams last as long as both sides want. Time-outs bound the connection to a target and, unless a log is followed,
// the wait for the beginning of the answer, and for an error's end.
//
// # Metrics
//
// Package usage has the numbers of /metrics/resource and /stats/summary. All virtual nodes have the same address. So a
// path has the name of the node, and paths without a name work as long as there is one target. Only the leader answers:
// it has the pods in a cache.
//
// # Serving certificate
//
// The serving certificate is self-signed and kept in memory. This is enough if API servers do not verify kubelets,
// which is the default of kube-apiserver. For API servers that verify kubelets, a signer can be named. The server then
// creates CertificateSigningRequests for the common name system:node:admiralty and the organisation system:nodes, as
// kubernetes.io/kubelet-serving requires. Somebody has to approve them, because kube-controller-manager approves no
// serving certificates of nodes. Until then, the server uses the self-signed certificate.
//
// # Rights
//
// In the source cluster: create tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io; get,
// list and watch pods and the ConfigMap extension-apiserver-authentication in kube-system (with the Role
// extension-apiserver-authentication-reader there). With a signer: create, get, list and watch
// certificatesigningrequests.certificates.k8s.io.
//
// In targets: get pods/log; create and get pods/exec, pods/attach and pods/portforward; list pods.metrics.k8s.io.
// WebSocket needs get, which is the only verb that API servers before 1.35 check for it.
package server
