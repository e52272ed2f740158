package server

import (
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// explanation serves what the scheduler knows of a pod.
func (s *Server) explanation(w http.ResponseWriter, r *http.Request) {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	r = r.WithContext(log.IntoContext(r.Context(), s.Logger.WithValues("namespace", key.Namespace, "pod", key.Name)))
	who, ok := s.access.authenticate(w, r)
	if !ok || !s.access.authorize(w, r, who, &verb{nodeSubresources: []string{"proxy"}, nodeVerb: "get"}, "") {
		return
	}
	if s.Explain == nil {
		http.Error(w, "Pods are not explained here.", http.StatusNotFound)
		return
	}
	known, ok := s.Explain(key)
	if !ok {
		http.Error(w, fmt.Sprintf("It is not known here how pod %q was scheduled: that was before this replica became the leader, "+
			"or too long ago, or never.", key), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(known); err != nil {
		log.FromContext(r.Context()).V(1).Info("Answering failed", "reason", err.Error())
	}
}
