package target

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

const (
	leaveTimeout   = 30 * time.Second
	deletesAtATime = 10
)

// leave deletes what we have in the target, if it answers, and disengages it.
func (l *loop) leave(ctx context.Context) {
	defer l.disengage()
	if l.engaged == nil || !l.engaged.target.Reachable() {
		return
	}
	if err := deleteChaperons(ctx, l.engaged.target); err != nil {
		log.FromContext(ctx).Error(err, "Some PodChaperons stay in the target that was deleted")
	}
}

func deleteChaperons(ctx context.Context, target *engage.Target) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	chaperons := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, chaperons); err != nil {
		return fmt.Errorf("listing PodChaperons: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(deletesAtATime)
	for i := range chaperons.Items {
		chaperon := &chaperons.Items[i]
		group.Go(func() error {
			err := target.Client.Delete(ctx, chaperon, client.PropagationPolicy(metav1.DeletePropagationForeground),
				client.Preconditions{UID: &chaperon.UID})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting PodChaperon %q: %w", client.ObjectKeyFromObject(chaperon), err)
			}
			return nil
		})
	}
	return group.Wait()
}
