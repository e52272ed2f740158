package server

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// verb is one of the things that a kubelet does for pods.
type verb struct {
	// nodeSubresources are those of which the caller needs one, with nodeVerb.
	nodeSubresources []string
	nodeVerb         string
	// podSubresource is the delegate's in the target.
	podSubresource string
	// query makes the target's query of the kubelet's.
	query func(kubelet url.Values) url.Values
	// plainErrors is whether callers expect errors as text, not as API objects.
	plainErrors bool
}

func logs() *verb {
	return &verb{
		nodeSubresources: []string{"log", "proxy"},
		nodeVerb:         "get",
		podSubresource:   "log",
		query:            logQuery,
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

// logQuery leaves out what is no kubelet's: whom the target's API server trusts is not the caller's to say.
func logQuery(kubelet url.Values) url.Values {
	kubelet.Del("insecureSkipTLSVerifyBackend")
	return kubelet
}

// execQuery: kubelets have names of their own for the streams.
func execQuery(kubelet url.Values) url.Values {
	query := url.Values{"command": kubelet["command"]}
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

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", s.podHandler(logs()))
	mux.Handle("GET /exec/{namespace}/{pod}/{container}", s.podHandler(exec()))
	mux.Handle("POST /exec/{namespace}/{pod}/{container}", s.podHandler(exec()))
	mux.HandleFunc("GET /explain/{namespace}/{pod}", s.explanation)
	mux.HandleFunc("/attach/", s.unserved("attach is not served yet for pods on virtual nodes; kubectl logs and kubectl exec are."))
	mux.HandleFunc("/portForward/", s.unserved("port-forward is not served yet for pods on virtual nodes; kubectl logs and kubectl exec are."))
	mux.HandleFunc("/", s.unserved("Virtual nodes serve /containerLogs and /exec of the kubelet API and /explain, and nothing else yet."))
	return mux
}

func (s *Server) unserved(sentence string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.access.authenticate(w, r); ok {
			http.Error(w, sentence, http.StatusNotFound)
		}
	}
}

func (s *Server) podHandler(v *verb) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(log.IntoContext(r.Context(), s.Logger.WithValues("namespace", r.PathValue("namespace"), "pod", r.PathValue("pod"))))
		who, ok := s.access.authenticate(w, r)
		if !ok {
			return
		}
		pod, err := s.proxyPod(r)
		// Who may not see this node's pods does not learn which there are, either.
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
		d.query = v.query(r.URL.Query())
		d.query.Set("container", r.PathValue("container"))
		s.forward(w, r, v, d)
	})
}

// refusal is an error with the HTTP status that it is answered with.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(code int, format string, args ...any) error {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// proxyPod returns the pod that is asked about, and an error if it is not one on a virtual node. The pod is never nil.
func (s *Server) proxyPod(r *http.Request) (*corev1.Pod, error) {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod := &corev1.Pod{}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	switch err := s.Reader.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return pod, refuse(http.StatusNotFound, "Pod %q is not known here.", key)
	case err != nil:
		log.FromContext(r.Context()).Error(err, "Getting a proxy failed")
		return pod, refuse(http.StatusInternalServerError, "Pod %q cannot be looked up right now; try again.", key)
	case !translate.IsProxy(pod) || pod.Spec.NodeName == "":
		return pod, refuse(http.StatusNotFound, "Pod %q does not run in another cluster: it is no proxy pod, or not bound to a virtual node yet.", key)
	}
	return pod, nil
}

// delegateOf finds a proxy's delegate, by its PodChaperon: a pod of that name alone may be anybody's.
func (s *Server) delegateOf(ctx context.Context, proxy *corev1.Pod) (destination, error) {
	target, ok := s.Registry.ByNode(proxy.Spec.NodeName)
	if !ok || !target.Reachable() {
		return destination{}, refuse(http.StatusServiceUnavailable,
			"The cluster behind node %q is not connected right now; the condition Connected of its ClusterTarget or Target says why.",
			proxy.Spec.NodeName)
	}
	d := destination{target: target, namespace: proxy.Namespace, pod: translate.DelegateName(proxy)}
	chaperon := &v1alpha1.PodChaperon{}
	err := target.Client.Get(ctx, types.NamespacedName{Namespace: d.namespace, Name: d.pod}, chaperon, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && chaperon.Labels[v1alpha1.LabelParentUID] != string(proxy.UID):
		return destination{}, refuse(http.StatusNotFound, "Pod %q has no delegate in the cluster behind node %q any more.",
			client.ObjectKeyFromObject(proxy), proxy.Spec.NodeName)
	case err != nil:
		log.FromContext(ctx).Error(err, "Getting a PodChaperon failed")
		return destination{}, refuse(http.StatusInternalServerError, "The delegate of pod %q cannot be looked up right now; try again.",
			client.ObjectKeyFromObject(proxy))
	}
	return d, nil
}
