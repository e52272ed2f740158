package server

import (
	"encoding/json"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/usage"
)

// nodeHandler answers a request about the virtual node of a target.
type nodeHandler struct {
	// subresources are subresources of nodes, as of kubelets. The caller needs the right get on one of them.
	subresources []string
	serve        func(w http.ResponseWriter, r *http.Request, target *engage.Target) error
}

// onNode authorises callers, and finds the target.
func (s *Server) onNode(h nodeHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := s.nodeName(r)
		r = r.WithContext(log.IntoContext(r.Context(), s.options.Logger.WithValues("node", name)))
		who, ok := s.access.authenticate(w, r)
		if !ok || !s.access.authorize(w, r, who, &verb{nodeSubresources: h.subresources, nodeVerb: "get"}, name) {
			return
		}
		target, err := s.targetOf(name)
		if err == nil {
			err = h.serve(w, r, target)
		}
		if err != nil {
			writeError(w, err)
		}
	})
}

// nodeName returns the node of the path. All virtual nodes have the same address, so a path of kubelets, without the
// name, names a node only if there is one. The name is empty if nobody knows.
func (s *Server) nodeName(r *http.Request) string {
	if name := r.PathValue("node"); name != "" {
		return name
	}
	if all := s.options.Registry.All(); len(all) == 1 {
		return all[0].NodeName
	}
	return ""
}

func (s *Server) targetOf(nodeName string) (*engage.Target, error) {
	if nodeName == "" {
		return nil, newError(http.StatusNotFound, "All virtual nodes have this address. Ask for one by its name: "+
			"/metrics/nodes/NAME/metrics/resource, /stats/nodes/NAME/summary or /pods/nodes/NAME. "+
			"metrics-server does so since v0.7.")
	}
	target, ok := s.options.Registry.ByNode(nodeName)
	if !ok || !target.Reachable() {
		return nil, newError(http.StatusServiceUnavailable, "The cluster behind node %q is not connected right now; "+
			"the condition Connected of its ClusterTarget or Target says why.", nodeName)
	}
	return target, nil
}

func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	who, ok := s.access.authenticate(w, r)
	if ok && s.access.authorize(w, r, who,
		&verb{nodeSubresources: []string{"healthz", "proxy"}, nodeVerb: "get"}, s.nodeName(r)) {
		_, _ = fmt.Fprint(w, "ok")
	}
}

// pods returns the proxies that are bound to a node.
func (s *Server) pods() nodeHandler {
	list := func(w http.ResponseWriter, r *http.Request, target *engage.Target) error {
		bound := &corev1.PodList{}
		err := s.options.Reader.List(r.Context(), bound, client.MatchingFields{"spec.nodeName": target.NodeName})
		if err != nil {
			log.FromContext(r.Context()).Error(err, "Listing proxies failed")
			return newError(http.StatusInternalServerError, "Pods cannot be listed right now; try again.")
		}
		all := corev1.PodList{Items: []corev1.Pod{}}
		all.APIVersion, all.Kind = "v1", "PodList"
		for _, pod := range bound.Items {
			if translate.IsProxy(&pod) {
				all.Items = append(all.Items, pod)
			}
		}
		writeJSON(w, r, all)
		return nil
	}
	return nodeHandler{[]string{"pods", "proxy"}, list}
}

// usage returns the usage of the pods of a target.
func (s *Server) usage(r *http.Request, target *engage.Target) (*usage.Node, error) {
	if s.options.Usage == nil {
		return nil, newError(http.StatusNotFound, "Pods are not measured here.")
	}
	select {
	case <-s.options.Leads:
	default:
		return nil, newError(http.StatusServiceUnavailable,
			"This replica does not lead; the address of node %q will lead to the one that does.", target.NodeName)
	}
	node, err := s.options.Usage.Node(r.Context(), target)
	if err != nil {
		log.FromContext(r.Context()).Error(err, "Measuring pods failed")
		return nil, newError(http.StatusInternalServerError, "Pods cannot be measured right now; try again.")
	}
	return node, nil
}

func writeJSON(w http.ResponseWriter, r *http.Request, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		log.FromContext(r.Context()).V(1).Info("Answering failed", "reason", err.Error())
	}
}
