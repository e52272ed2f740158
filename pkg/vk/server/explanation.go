package server

import (
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// explanation serves the scheduler's explanation of a pod.
func (s *Server) explanation(w http.ResponseWriter, r *http.Request) {
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	logger := s.options.Logger.WithValues("namespace", key.Namespace, "pod", key.Name)
	r = r.WithContext(log.IntoContext(r.Context(), logger))
	who, ok := s.access.authenticate(w, r)
	if !ok || !s.access.authorize(w, r, who, &verb{nodeSubresources: []string{"proxy"}, nodeVerb: "get"}, "") {
		return
	}
	if s.options.Explain == nil {
		http.Error(w, "Pods are not explained here.", http.StatusNotFound)
		return
	}
	known, ok := s.options.Explain(key)
	if !ok {
		const text = "It is not known here how pod %q was scheduled: " +
			"it was before this replica became the leader, or too long ago, or never."
		http.Error(w, fmt.Sprintf(text, key), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(known); err != nil {
		log.FromContext(r.Context()).V(1).Info("Answering failed", "reason", err.Error())
	}
}
