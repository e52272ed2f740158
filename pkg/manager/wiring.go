package manager

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/token"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// wiring adds the parts to a manager.
type wiring struct {
	mgr    ctrl.Manager
	config *configv1alpha1.Configuration
	pod    Pod
	origin translate.Source
	clock  clock.RealClock
	// lead is the right to lead.
	lead wire.Right
	// proxies lists proxies by their node, from the manager's cache.
	proxies *podcache.ByNode
	// proofs is nil until it has been added.
	proofs *proof.Keeper
	// tokens is nil until it has been added.
	tokens *token.Renewer
	// inUse is nil until it has been added.
	inUse *addresses.InUse
	// holds is nil until somebody has asked for it.
	holds *hold.Process
	// follower is nil until following has been added, and scheduler is nil until scheduling has been added.
	follower  *follow.Follower
	scheduler *scheduling.Scheduler
}

// part is a part of the manager, and how to add it.
type part struct {
	name string
	add  func() error
}

func (w *wiring) wire(ctx context.Context, serving certificate) error {
	parts := []part{
		{"health", func() error { return w.health(serving) }},
		{"the webhook's certificate", func() error { return serving.add(w.mgr) }},
	}
	if *w.config.Roles.Source {
		w.proxies = podcache.NewByNode(w.mgr.GetClient(), w.mgr.GetFieldIndexer())
		parts = append(parts, w.sourceParts(ctx)...)
	}
	if *w.config.Roles.Target {
		parts = append(parts, w.targetParts(ctx)...)
	}
	for _, part := range parts {
		if err := part.add(); err != nil {
			return fmt.Errorf("adding %s: %w", part.name, err)
		}
	}
	return nil
}
