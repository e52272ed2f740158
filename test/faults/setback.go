package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// settingBack keeps the data of a cluster's etcd, and gives them back later. The source must notice that a target was
// set back, and an administrator accepts it. A source that did not renew its Lease in the lost time did nothing in the
// target meanwhile. Then there is nothing to notice, and it may go on.
func settingBack(name string) fault {
	what := map[string]string{source: "the source's etcd set back", target: "the target's etcd set back"}
	return fault{
		name: what[name], part: name, silences: name == source, atEnd: true,
		begin: func(ctx context.Context, l *lab, _ *rand.Rand) (end, error) {
			var saved renewal
			since := time.Now()
			back := func(ctx context.Context) error {
				last := l.lastRenewal(ctx, name)
				l.unwatch[name]() // What it sees until the API server ends is forgotten, too.
				l.setBack.Store(true)
				l.history.SetBack(name, name == source, since)
				defer l.history.Back(name)
				if err := clusters(ctx, "set-back", name); err != nil {
					return err
				}
				if err := l.watch(context.WithoutCancel(ctx), name); err != nil {
					return err
				}
				if name == target {
					noticed := func(ctx context.Context) error { return l.notice(ctx, saved, last) }
					if err := until(ctx, noticed); err != nil {
						l.late(ctx, "a target that was set back is not noticed: %v", err)
					}
				}
				return nil
			}
			err := clusters(ctx, "save", name)
			saved = l.lastRenewal(ctx, name)
			return back, err
		},
	}
}

// renewal is the last renewal of the source's Lease in the target. The zero renewal is one that could not be read.
type renewal struct {
	holder string
	at     int64 // in microseconds
}

func (l *lab) lastRenewal(ctx context.Context, name string) renewal {
	leases := &coordinationv1.LeaseList{}
	if name != target || l.clusters[name].List(ctx, leases, client.InNamespace("admiralty-leases")) != nil {
		return renewal{}
	}
	var last renewal // The Leases of sources that were deleted stay.
	for _, lease := range leases.Items {
		at := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).UnixMicro()
		if lease.Annotations[v1alpha1.LabelParentClusterID] != "" && at > last.at {
			last = renewal{ptr.Deref(lease.Spec.HolderIdentity, ""), at}
		}
	}
	return last
}

// notice accepts that the target was set back, or returns nil if the source need not notice and acts there again.
func (l *lab) notice(ctx context.Context, saved, last renewal) error {
	err := l.accept(ctx)
	if !errors.Is(err, errNothingToAccept) || saved != last {
		return err
	}
	if now := l.lastRenewal(ctx, target); now != (renewal{}) && now != saved {
		return nil
	}
	return err
}

var errNothingToAccept = errors.New("no ClusterTarget says that it was set back")

// accept accepts the epochs of targets that say that they were set back. It returns errNothingToAccept if none does.
func (l *lab) accept(ctx context.Context) error {
	found := &v1alpha1.ClusterTargetList{}
	if err := l.clusters[source].List(ctx, found); err != nil {
		return err
	}
	result := errNothingToAccept
	for i := range found.Items {
		t := &found.Items[i]
		connected := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionConnected)
		if connected == nil || connected.Reason != v1alpha1.ReasonTurnedBack {
			continue
		}
		before := client.MergeFrom(t.DeepCopy())
		if t.Annotations == nil {
			t.Annotations = map[string]string{}
		}
		t.Annotations[v1alpha1.AnnotationAcceptEpoch] = strconv.FormatInt(t.Status.Epoch, 10)
		if err := l.clusters[source].Patch(ctx, t, before); err != nil {
			return err
		}
		result = nil
	}
	return result
}
