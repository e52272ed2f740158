package objects

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// otherUser is a user of objects in a target that is not a pod: an Ingress, for example. It names the virtual node,
// because engagements come and go.
type otherUser struct{ node, namespace, name string }

// Keep keeps objects of a namespace in the target, up to date, for a user that is not a pod. The caller chooses the
// user's name. A call without refs ends that. Objects that do not exist are skipped, and copied when they appear. A
// *needs.RefusedError says that the target refuses a copy. After any other error, Keep may be called again.
func (f *Follower) Keep(ctx context.Context, target *engage.Target, namespace, name string, refs []needs.Ref) error {
	f.replaceOther(otherUser{target.NodeName, namespace, name}, refs)
	l, ok := f.links.Get(target)
	if !ok || len(refs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.EnsureObjects)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writesPerPod)
	for _, ref := range refs {
		o := objectKey{namespace, ref}
		if err := f.ensure(o.collection()).waitUntilKnown(ctx); err != nil {
			return fmt.Errorf("looking for %s: %w", o, err)
		}
		group.Go(func() error {
			if err := l.ensure(ctx, o); !errors.Is(err, errGone) {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}

// replaceOther counts the needs of a user that is not a pod, in place of its earlier needs.
func (f *Follower) replaceOther(user otherUser, refs []needs.Ref) {
	after := usage{namespace: user.namespace, node: user.node}
	for _, ref := range refs {
		after.needs = append(after.needs, needs.Need{Ref: ref, Optional: true})
	}
	f.othersMu.Lock()
	before := f.others[user]
	if len(refs) == 0 {
		delete(f.others, user)
	} else {
		f.others[user] = after
	}
	f.users.replaceUsage(before, after)
	f.othersMu.Unlock()
	f.forgetUnneeded(before)
}
