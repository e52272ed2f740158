package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// ensureRunner starts the target's node controller, or hands the desired node to a running one. It returns when to
// reconcile again.
func (r *Reconciler) ensureRunner(ctx context.Context, f facts) (time.Duration, error) {
	if running := r.activeRunner(f.key); running != nil {
		want := desiredNode(f)
		if running.lost(f.existing) {
			running.stop() // Its end wakes the target, and the next one takes the node over.
			return 0, r.createNode(ctx, want)
		}
		return running.handOver(want, conforms(f.existing, want), f.now.Time), nil
	}
	var err error
	if f.existing, err = r.getNode(ctx, r.options.APIReader, translate.VirtualNodeName(f.key)); err != nil {
		return 0, err
	}
	if f.existing != nil && !isVirtual(f.existing) {
		return 0, nil // The cache lags, and its event follows.
	}
	want := desiredNode(f)
	if f.existing == nil {
		// A Lease of an earlier node would be garbage-collected while this node uses it.
		if err := r.deleteLease(ctx, want.Name); err != nil {
			return 0, err
		}
	}
	ended := func(err error) { r.runnerEnded(f.key, err) }
	running, err := startRunner(r.wake.Context(), r.clients, want, f.now.Time, ended)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	r.runners[f.key] = running
	r.mu.Unlock()
	return handOverAgainAfter, nil
}

// createNode creates a node that somebody deleted, at once: the node controller, and its renewals of the Lease, take
// some seconds to end. Kubernetes deletes the pods of nodes that it has missed for forty seconds.
func (r *Reconciler) createNode(ctx context.Context, node *corev1.Node) error {
	if err := r.deleteLease(ctx, node.Name); err != nil {
		return err
	}
	if err := r.options.Client.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating node %q: %w", node.Name, err)
	}
	return nil
}

// activeRunner returns the target's runner, or nil if it has ended or was never started.
func (r *Reconciler) activeRunner(key types.NamespacedName) *runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	running := r.runners[key]
	if running != nil && running.ended() {
		delete(r.runners, key)
		return nil
	}
	return running
}

func (r *Reconciler) runnerEnded(key types.NamespacedName, err error) {
	ctx := r.wake.Context()
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.wake.Wake(key)
		return
	}
	log.FromContext(ctx).Error(err, "The node controller ended and is started again", "target", targetkind.Name(key))
	r.wake.WakeAfter(key, handOverAgainAfter)
}

// stopRunner stops the target's runner, and returns whether it has ended. If not, the target is reconciled again at its
// end.
func (r *Reconciler) stopRunner(key types.NamespacedName) bool {
	running := r.activeRunner(key)
	if running == nil {
		return true
	}
	running.stop()
	return false
}
