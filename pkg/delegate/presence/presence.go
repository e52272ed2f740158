package presence

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Presence renews the Lease of a target's manager.
type Presence struct {
	// Leases are those of the namespace of Leases.
	Leases coordination.LeaseInterface
	// Holder says to people which process renews the Lease.
	Holder string
	// Fences says that this manager fences delegates.
	Fences bool
	Clock  clock.Clock
	Logger logr.Logger
}

// NeedLeaderElection returns true: replicas that do not lead do no work of a target.
func (*Presence) NeedLeaderElection() bool { return true }

// Start renews the Lease at once, and then regularly until ctx ends.
func (p *Presence) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		wait := timeouts.PresenceRenewal
		if err := p.renew(ctx); err != nil && ctx.Err() == nil {
			p.Logger.Error(err, "Sources will take this manager for silent")
			wait = timeouts.PresenceRetry
		}
		select {
		case <-ctx.Done():
		case <-p.Clock.After(wait):
		}
	}
	return nil
}

// renew renews the Lease, and creates it if it does not exist.
func (p *Presence) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.PresenceRenewal/2)
	defer cancel()
	lease, err := p.Leases.Get(ctx, v1alpha1.LeaseManager, metav1.GetOptions{})
	write := func(lease *coordinationv1.Lease) error {
		_, err := p.Leases.Update(ctx, lease, metav1.UpdateOptions{FieldManager: v1alpha1.FieldOwner})
		return err
	}
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseManager}}
		write = func(lease *coordinationv1.Lease) error {
			_, err := p.Leases.Create(ctx, lease, metav1.CreateOptions{FieldManager: v1alpha1.FieldOwner})
			return err
		}
	} else if err != nil {
		return fmt.Errorf("getting Lease %q: %w", v1alpha1.LeaseManager, err)
	}
	delete(lease.Annotations, v1alpha1.AnnotationFences)
	if p.Fences {
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationFences, "")
	}
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationChanges, "")
	lease.Spec.HolderIdentity = &p.Holder
	lease.Spec.RenewTime = new(metav1.NewMicroTime(p.Clock.Now()))
	metav1.SetMetaDataAnnotation(
		&lease.ObjectMeta, v1alpha1.AnnotationSpares, translate.RenewedAt(*lease.Spec.RenewTime))
	lease.Spec.LeaseDurationSeconds = new(int32(timeouts.SilentWithin / time.Second))
	if err := write(lease); err != nil {
		return fmt.Errorf("writing Lease %q: %w", v1alpha1.LeaseManager, err)
	}
	return nil
}
