package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// verb is an operation of the kubelet API on a pod.
type verb struct {
	// nodeSubresources are subresources of nodes. The caller needs the right nodeVerb on one of them.
	nodeSubresources []string
	nodeVerb         string
	// podSubresource is the subresource of the delegate in the target.
	podSubresource string
	// query translates the kubelet's query for the target.
	query func(kubelet url.Values) url.Values
	// waits means that the request waits until an ephemeral container starts.
	waits bool
	// plainErrors means that callers expect errors as text, not as API objects.
	plainErrors bool
}

func logs() *verb {
	return &verb{
		nodeSubresources: []string{"log", "proxy"},
		nodeVerb:         "get",
		podSubresource:   "log",
		query:            logQuery,
		waits:            true,
		plainErrors:      true,
	}
}

func exec() *verb {
	return &verb{
		nodeSubresources: []string{"proxy"},
		nodeVerb:         "create",
		podSubresource:   "exec",
		query:            execQuery,
	}
}

func attach() *verb {
	return &verb{
		nodeSubresources: []string{"proxy"},
		nodeVerb:         "create",
		podSubresource:   "attach",
		query:            streamQuery,
	}
}

func portForward() *verb {
	return &verb{
		nodeSubresources: []string{"proxy"},
		nodeVerb:         "create",
		podSubresource:   "portforward",
		query:            portQuery,
	}
}

// logQuery removes a parameter that kubelets do not have: callers do not decide whom the target's API server trusts.
func logQuery(kubelet url.Values) url.Values {
	kubelet.Del("insecureSkipTLSVerifyBackend")
	return kubelet
}

func execQuery(kubelet url.Values) url.Values {
	query := streamQuery(kubelet)
	query["command"] = kubelet["command"]
	return query
}

// streamQuery translates the names of the streams, which kubelets have of their own.
func streamQuery(kubelet url.Values) url.Values {
	query := url.Values{}
	for theirs, ours := range map[string]string{
		corev1.ExecStdinParam:  "stdin",
		corev1.ExecStdoutParam: "stdout",
		corev1.ExecStderrParam: "stderr",
		corev1.ExecTTYParam:    "tty",
	} {
		if kubelet.Get(theirs) == "1" {
			query.Set(ours, "true")
		}
	}
	return query
}

// portQuery translates the ports of the oldest protocol over WebSocket, the only one that has them in the query. API
// servers join them for kubelets.
func portQuery(kubelet url.Values) url.Values {
	query := url.Values{}
	for _, joined := range kubelet[corev1.PortHeader] {
		for port := range strings.SplitSeq(joined, ",") {
			query.Add("ports", port)
		}
	}
	return query
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", s.podHandler(logs()))
	for path, v := range map[string]*verb{
		"/exec/{namespace}/{pod}/{container}":   exec(),
		"/attach/{namespace}/{pod}/{container}": attach(),
		"/portForward/{namespace}/{pod}":        portForward(),
	} {
		mux.Handle("GET "+path, s.podHandler(v))
		mux.Handle("POST "+path, s.podHandler(v))
	}
	mux.HandleFunc("GET /explain/{namespace}/{pod}", s.explanation)
	for path, h := range map[string]nodeHandler{
		"/metrics/resource":                     s.metrics(),
		"/stats/summary":                        s.summary(),
		"/pods":                                 s.pods(),
		"/stats/nodes/{node}/summary":           s.summary(),
		"/pods/nodes/{node}":                    s.pods(),
		translate.ResourceMetricsPath("{node}"): s.metrics(),
	} {
		mux.Handle("GET "+path, s.onNode(h))
	}
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("/", s.notServed("Virtual nodes serve /containerLogs, /exec, /attach, /portForward, "+
		"/metrics/resource, /stats/summary, /pods and /healthz of the kubelet API and /explain, and nothing else: "+
		"for other verbs, ask the cluster that runs the delegate."))
	return mux
}

func (s *Server) notServed(sentence string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.access.authenticate(w, r); ok {
			http.Error(w, sentence, http.StatusNotFound)
		}
	}
}

func (s *Server) podHandler(v *verb) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logger := s.options.Logger.WithValues("namespace", r.PathValue("namespace"), "pod", r.PathValue("pod"))
		r = r.WithContext(log.IntoContext(r.Context(), logger))
		who, ok := s.access.authenticate(w, r)
		if !ok {
			return
		}
		pod, err := s.proxyPod(r)
		// Authorise first: a caller without rights on the node must not learn which pods exist.
		if !s.access.authorize(w, r, who, v, pod.Spec.NodeName) {
			return
		}
		if err != nil {
			writeError(w, err)
			return
		}
		d, err := s.delegateOf(r.Context(), pod)
		if err != nil {
			writeError(w, err)
			return
		}
		if v.waits {
			s.waitForStart(r.Context(), pod, r.PathValue("container"), d)
		}
		d.query = v.query(r.URL.Query())
		if container := r.PathValue("container"); container != "" {
			d.query.Set("container", container)
		}
		s.forward(w, r, v, d)
	})
}

// httpError is an error with its HTTP status code.
type httpError struct {
	code    int
	message string
}

func (e *httpError) Error() string { return e.message }

func newError(code int, format string, args ...any) error {
	return &httpError{code: code, message: fmt.Sprintf(format, args...)}
}

// proxyPod returns the pod of the request, and an error unless it is a proxy that is bound. The pod is never nil.
func (s *Server) proxyPod(r *http.Request) (*corev1.Pod, error) {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod := &corev1.Pod{}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	switch err := s.options.Reader.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return pod, newError(http.StatusNotFound, "Pod %q is not known here.", key)
	case err != nil:
		log.FromContext(r.Context()).Error(err, "Getting a proxy failed")
		return pod, newError(http.StatusInternalServerError, "Pod %q cannot be looked up right now; try again.", key)
	case !translate.IsProxy(pod) || pod.Spec.NodeName == "":
		return pod, newError(http.StatusNotFound, "Pod %q does not run in another cluster: it is no proxy, "+
			"or it is not bound to a virtual node yet.", key)
	}
	return pod, nil
}

// delegateOf finds a proxy's delegate by its PodChaperon. The name alone is not enough: another pod may have it.
func (s *Server) delegateOf(ctx context.Context, proxy *corev1.Pod) (destination, error) {
	target, ok := s.options.Registry.ByNode(proxy.Spec.NodeName)
	if !ok || !target.Reachable() {
		return destination{}, newError(http.StatusServiceUnavailable,
			"The cluster behind node %q is not connected right now; "+
				"the condition Connected of its ClusterTarget or Target says why.", proxy.Spec.NodeName)
	}
	d := destination{target: target, namespace: proxy.Namespace, pod: translate.DelegateName(proxy)}
	chaperon := &v1alpha1.PodChaperon{}
	key := types.NamespacedName{Namespace: d.namespace, Name: d.pod}
	err := target.Client.Get(ctx, key, chaperon, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && gate.ParentOf(chaperon).UID != proxy.UID:
		return destination{}, newError(http.StatusNotFound,
			"Pod %q has no delegate in the cluster behind node %q any more.",
			client.ObjectKeyFromObject(proxy), proxy.Spec.NodeName)
	case err != nil:
		log.FromContext(ctx).Error(err, "Getting a PodChaperon failed")
		return destination{}, newError(http.StatusInternalServerError,
			"The delegate of pod %q cannot be looked up right now; try again.", client.ObjectKeyFromObject(proxy))
	}
	return d, nil
}
