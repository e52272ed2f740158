package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
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
	parts := []part{{"health", func() error { return w.health(serving) }}}
	parts = append(parts, w.sourceParts(ctx, serving)...)
	parts = append(parts, w.targetParts()...)
	for _, part := range parts {
		if err := part.add(); err != nil {
			return fmt.Errorf("adding %s: %w", part.name, err)
		}
	}
	return nil
}

// health adds the checks that the process lives, and that API servers can call the webhook: it serves, with a
// certificate. A missing certificate makes the process unready but not unhealthy, so that it goes on placing pods.
func (w *wiring) health(serving certificate) error {
	return errors.Join(
		w.mgr.AddHealthzCheck("ping", healthz.Ping),
		w.mgr.AddReadyzCheck("webhook", w.mgr.GetWebhookServer().StartedChecker()),
		w.mgr.AddReadyzCheck("certificate", serving.ready),
	)
}
