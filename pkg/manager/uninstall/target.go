package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/garbagecollection"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// notice is how long after the manager has stopped all connected sources know it, and place no more pods here.
const notice = timeouts.SilentWithin + 5*time.Second

// errNoTime says that no PodChaperon was deleted. Helm then keeps the release. It refuses an upgrade of such a release,
// so a longer time-out is no remedy.
var errNoTime = errors.New("no time was left to end the delegates of sources: run helm uninstall again; the manager " +
	"has stopped, so the time now suffices")

// endDelegates ends all delegates in this cluster, and deletes the copies. The manager stopped at the given time.
func (r *run) endDelegates(ctx context.Context, stopped time.Time) error {
	idle, err := r.unused(ctx)
	if err != nil {
		return err
	}
	if !idle {
		if err := r.deleteChaperons(ctx, stopped); err != nil {
			return err
		}
	}
	if err := garbagecollection.DeleteCopies(ctx, r.metadata, r.Configuration.SecretNamespaces); err != nil {
		return fmt.Errorf("deleting the copies of sources: %w", err)
	}
	return nil
}

// unused says whether the cluster has no sources, and no PodChaperons.
func (r *run) unused(ctx context.Context) (bool, error) {
	for _, list := range []client.ObjectList{
		&v1alpha1.ClusterSourceList{}, &v1alpha1.SourceList{}, &v1alpha1.PodChaperonList{},
	} {
		err := r.client.List(ctx, list, client.Limit(1))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue // Somebody deleted the custom resource definitions first, and the objects with them.
		}
		if err != nil {
			return false, fmt.Errorf("looking for sources: %w", err)
		}
		if meta.LenList(list) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// deleteChaperons deletes all PodChaperons, once sources had the time to notice that they must not make others. It
// waits until all are gone, and sources had the time to notice this, too: when the release is gone, they may not look
// any more. Without the time for both, it deletes nothing, and returns an error at once: another try has its own time.
func (r *run) deleteChaperons(ctx context.Context, stopped time.Time) error {
	if r.until.Before(stopped.Add(r.Notice + interval)) {
		return errNoTime
	}
	left, last := 0, stopped // how many were there, and when
	gone, err := r.await(ctx, r.until, func(ctx context.Context) (bool, error) {
		now := r.clock.Now()
		chaperons := &metav1.PartialObjectMetadataList{}
		chaperons.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperonList"))
		if err := r.client.List(ctx, chaperons); err != nil {
			return false, fmt.Errorf("listing PodChaperons: %w", err)
		}
		if left = len(chaperons.Items); left > 0 {
			last = now
		}
		remove, done := decideChaperons(left, now, stopped, last, r.Notice)
		switch {
		case now.Before(stopped.Add(r.Notice)):
			r.report("Waiting until sources have noticed that the manager has stopped", stopped.Add(r.Notice))
		case !done:
			r.report("Ending the delegates of sources", r.until, "delegates", left)
		}
		if !remove {
			return done, nil
		}
		return false, r.deleteAll(ctx, chaperons, metav1.DeletePropagationForeground)
	})
	if err != nil {
		return fmt.Errorf("ending the delegates of sources: %w", err)
	}
	if !gone {
		r.log.Info("Delegates of sources have not ended in time. Kubernetes ends them", "delegates", left)
	}
	return nil
}

// decideChaperons says whether to delete the PodChaperons that are left, or that all is done. stopped is when the
// manager stopped, and last when PodChaperons were there. It is pure.
func decideChaperons(left int, now, stopped, last time.Time, notice time.Duration) (remove, done bool) {
	if now.Before(stopped.Add(notice)) {
		return false, false
	}
	return left > 0, left == 0 && !now.Before(last.Add(notice/4))
}

// deleteAll deletes the objects that are not being deleted yet.
func (r *run) deleteAll(
	ctx context.Context, list *metav1.PartialObjectMetadataList, propagation metav1.DeletionPropagation,
) error {
	var errs []error
	for i := range list.Items {
		object := &list.Items[i]
		if object.DeletionTimestamp != nil {
			continue
		}
		err := r.client.Delete(ctx, object,
			client.Preconditions{UID: &object.UID}, client.PropagationPolicy(propagation))
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %q: %w", client.ObjectKeyFromObject(object), err))
		}
	}
	return errors.Join(errs...)
}
