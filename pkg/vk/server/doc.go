// Package server is the kubelet API of all virtual nodes: API servers ask it for the logs of proxies and for commands to be run
// in them, and it passes that on to the API server of the target where the delegate runs, with the source's identity there.
//
// Callers are authenticated and authorised as by a kubelet: by a client certificate of the cluster's client CA or a
// token (TokenReview), and by SubjectAccessReview on nodes/log (or nodes/proxy) for logs and on nodes/proxy for exec, where the name
// is that of the proxy's node. There are no anonymous callers. In one thing it is stricter: exec needs the verb create
// however it is asked for, because with a kubelet the right to read nodes/proxy is the right to run commands. That is so of callers who
// come here themselves: through the node proxy of an API server, the caller is that API server, and get on nodes/proxy is all it takes.
// One path is no kubelet's: /explain/{namespace}/{pod} tells what the scheduler of this replica knows of a pod, placed or not. That names any
// target, so it takes the right get on nodes/proxy of all nodes.
// Nothing that the caller sends to prove who it is goes on to the target: headers pass by a short list.
//
// Requests go on through httputil.ReverseProxy over client-go's own transport, kept at HTTP/1.1, rather than through
// apimachinery's UpgradeAwareHandler: both carry SPDY and WebSocket, but the latter dials by itself, and so passes by the proxy
// that a kubeconfig may name, and does not verify a server whose kubeconfig leaves the CA to the system.
// Streams last as long as both sides want; connecting to a target and, unless a log is followed, waiting for the
// beginning of its answer are bounded.
//
// The serving certificate is self-signed and lives in memory, which is enough where API servers do not verify kubelets (the default
// of kube-apiserver). Where they do, a signer can be named. CertificateSigningRequests are made for the common name
// system:node:admiralty and the organisation system:nodes, as kubernetes.io/kubelet-serving demands; somebody has to approve
// them, because kube-controller-manager approves serving certificates of no node. Until then the self-signed one serves.
//
// Rights needed in the source cluster: create tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io;
// get, list and watch the ConfigMap extension-apiserver-authentication in kube-system (the Role
// extension-apiserver-authentication-reader there); get, list and watch pods; with a signer, create, get, list and watch
// certificatesigningrequests.certificates.k8s.io. In targets: get pods/log, create and get pods/exec (get is for
// WebSocket, which API servers before 1.35 authorise by it alone).
package server
