package services

import (
	"context"
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// keptSecrets plays the part that copies Secrets: it records which are kept, and refuses them if a test wants that.
type keptSecrets struct {
	mu      sync.Mutex                                                 // guards all that follows
	kept    map[types.NamespacedName]map[types.NamespacedName][]string // by target and Ingress
	refused map[types.NamespacedName]bool                              // by target
	written int                                                        // how often Secrets were to be kept
}

func (s *keptSecrets) keep(_ context.Context, in *engage.Target, ingress types.NamespacedName, names []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[in.Key] == nil {
		s.kept[in.Key] = map[types.NamespacedName][]string{}
	}
	s.kept[in.Key][ingress] = names
	if len(names) > 0 {
		s.written++
	}
	if s.refused[in.Key] && len(names) > 0 {
		return &needs.RefusedError{Ref: needs.Ref{Resource: needs.Secrets, Name: names[0]}, Reason: "exists there"}
	}
	return nil
}

// refuse refuses all that is to be kept in a target from now on, or takes it again.
func (s *keptSecrets) refuse(in *env.Target, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[in.Key] = refused
}

// writes returns how often Secrets were to be kept, anywhere.
func (s *keptSecrets) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// of returns the Secrets that are kept in a target for an Ingress.
func (s *keptSecrets) of(in *env.Target, ingress *networkingv1.Ingress) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[in.Key][client.ObjectKeyFromObject(ingress)]
}
