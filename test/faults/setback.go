package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// settingBack keeps the data of a cluster's etcd, and gives them back later. A target must notice, and an administrator
// accepts it.
func settingBack(name string) fault {
	what := map[string]string{source: "the source's etcd set back", target: "the target's etcd set back"}
	return fault{
		name: what[name], part: name,
		begin: func(ctx context.Context, l *lab, _ *rand.Rand) (end, error) {
			back := func(ctx context.Context) error {
				l.unwatch[name]() // What it sees until the API server ends is forgotten, too.
				l.setBack.Store(true)
				l.history.SetBack(name, name == source)
				defer l.history.Away(name, false)
				if err := clusters(ctx, "set-back", name); err != nil {
					return err
				}
				if err := l.watch(context.WithoutCancel(ctx), name); err != nil {
					return err
				}
				if name == target {
					if err := until(ctx, l.accept); err != nil {
						l.history.Violate(checker.Converges, "a target that was set back is not noticed: %v", err)
					}
				}
				return nil
			}
			return back, clusters(ctx, "save", name)
		},
	}
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
