package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// losing is a partition for so long that fenced pods run elsewhere. They are in the target when it begins.
func losing() fault {
	lost := map[string]types.UID{}
	return fault{
		name: "partition, longer than a fence", part: network, away: true, cuts: true,
		prepare: func(ctx context.Context, l *lab) error {
			for _, app := range []string{fenced, alone} {
				uid, err := l.placeFenced(ctx, app)
				if err != nil {
					return err
				}
				lost[app] = uid
			}
			return nil
		},
		begin: func(ctx context.Context, l *lab, r *rand.Rand) (end, error) {
			heal, err := cutting()(ctx, l, r)
			return func(ctx context.Context) error {
				for app, uid := range lost {
					err := until(ctx, func(ctx context.Context) error { return l.fencedMoved(ctx, app, uid) })
					if err != nil {
						l.late(ctx, "the fenced pod %s of a lost target: %v; %s", app, err, l.fencing(ctx, app))
					}
				}
				return heal(context.WithoutCancel(ctx))
			}, err
		},
	}
}

// fencing is what the source says of the target's fencing, and of what keeps it from confirming the end of pods there.
func (l *lab) fencing(ctx context.Context, app string) string {
	to, events := &v1alpha1.ClusterTarget{}, &corev1.EventList{}
	pod, err := l.fencedPod(ctx, app)
	err = errors.Join(
		err,
		l.clusters[source].Get(ctx, client.ObjectKey{Name: target}, to),
		l.clusters[source].List(ctx, events, client.MatchingFields{"involvedObject.kind": "ClusterTarget"}),
	)
	if err != nil {
		return "what the source says is not known: " + err.Error()
	}
	says := []string{
		fmt.Sprintf("status.fences is %t", ptr.Deref(to.Status.Fences, false)),
		fmt.Sprintf("the pod is fenced after %q s", pod.Annotations[v1alpha1.AnnotationFencedAfter]),
	}
	for _, c := range to.Status.Conditions {
		since := c.LastTransitionTime.Format(time.TimeOnly)
		says = append(says, fmt.Sprintf("%s is %s (%s) since %s", c.Type, c.Status, c.Reason, since))
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Type == corev1.EventTypeWarning {
			says = append(says, fmt.Sprintf("event %s: %s", e.Reason, e.Message))
		}
	}
	return strings.Join(says, "; ")
}

// placeFenced has the fenced pod with this label app run in the target, and returns its UID.
func (l *lab) placeFenced(ctx context.Context, app string) (types.UID, error) {
	pod, err := l.fencedPod(ctx, app)
	if err != nil {
		return "", err
	}
	if isIn(pod, target) {
		return pod.UID, nil
	}
	if err := l.kubectl(ctx, "cordon", "admiralty-"+source); err != nil {
		return "", err
	}
	defer func() { _ = l.uncordon(context.WithoutCancel(ctx), source) }()
	l.history.Allow(pod.UID, checker.Deleted)
	if err := l.kubectl(ctx, "delete", "pod", pod.Name, "--wait=false"); err != nil {
		return "", err
	}
	err = until(ctx, func(ctx context.Context) error {
		if pod, err = l.fencedPod(ctx, app); err != nil {
			return err
		}
		if !isIn(pod, target) {
			return fmt.Errorf("the fenced pod is on %q, %s", pod.Spec.NodeName, pod.Status.Phase)
		}
		return nil
	})
	return pod.UID, err
}

// uncordon lets pods go to a cluster again.
func (l *lab) uncordon(ctx context.Context, name string) error {
	return until(ctx, func(ctx context.Context) error { return l.kubectl(ctx, "uncordon", "admiralty-"+name) })
}

// fencedMoved returns an error unless another fenced pod than the lost one is in the source.
func (l *lab) fencedMoved(ctx context.Context, app string, lost types.UID) error {
	pod, err := l.fencedPod(ctx, app)
	if err != nil {
		return err
	}
	if pod.UID == lost || !isIn(pod, source) {
		return fmt.Errorf("it is on %q, %s, being deleted: %t, the lost one: %t",
			pod.Spec.NodeName, pod.Status.Phase, pod.DeletionTimestamp != nil, pod.UID == lost)
	}
	return nil
}

// fencedPod returns the pod with this label app, and rather one that is not being deleted.
func (l *lab) fencedPod(ctx context.Context, app string) (*corev1.Pod, error) {
	pods, err := l.proxies(ctx, app)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("there is no pod %s", app)
	}
	lives := func(p corev1.Pod) bool { return p.DeletionTimestamp == nil }
	return &pods[max(0, slices.IndexFunc(pods, lives))], nil
}

// isIn reports whether a pod runs in a cluster.
func isIn(pod *corev1.Pod, name string) bool {
	return pod.Spec.NodeName == "admiralty-"+name && pod.DeletionTimestamp == nil &&
		pod.Status.Phase == corev1.PodRunning
}
