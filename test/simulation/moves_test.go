package simulation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

// growing is the policy of the last target. Pods that find no node there wait for one, and may move.
func growing() *v1alpha1.PlacementPolicy {
	timeout := &metav1.Duration{Duration: 10 * placementTimeout}
	return &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{Timeout: timeout}}
}

// moves are invitations of pods that wait in a target, and moves of pods that do not.
func (w *world) moves() []action {
	if !w.manager.acts() {
		return nil
	}
	all := w.manager.invitations()
	for _, pod := range w.manager.waiting() {
		all = append(all, w.manager.moves(pod)...)
	}
	return all
}

// invitations end the waits of pods: other targets may have room. Package scheduling does this.
func (s *source) invitations() []action {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	var running []string
	for proxy, a := range s.attempts {
		if a.running {
			running = append(running, string(proxy))
		}
	}
	slices.Sort(running)
	var all []action
	for _, proxy := range running {
		all = append(all, action{"the source invites " + proxy, func() {
			s.placer.Delegates.Invite(types.UID(proxy))
		}, "the source's scheduler"})
	}
	return all
}

// moves are those that are possible now, of a pod with a delegate in one target to another one.
func (s *source) moves(pod *corev1.Pod) []action {
	holder := s.placer.Delegates.Holder(pod.UID)
	if holder == nil || s.placer.Delegates.ScheduledIn(holder, pod.UID) {
		return nil
	}
	var all []action
	for _, k := range s.world.targets {
		e := s.engaged[k]
		if e == nil || !e.target.Reachable() || holder == e.target {
			continue
		}
		all = append(all,
			s.move("the source moves "+pod.Name, pod, holder, e, placement.Departure{Reason: "there is room"}),
			s.move("the source, whose target takes no pods, moves "+pod.Name, pod, holder, e,
				placement.Departure{Reason: "it is cordoned", Closed: true}))
	}
	return all
}

// move moves a pod from the target that has its delegate to another one.
func (s *source) move(
	label string, pod *corev1.Pod, from *placement.Target, to *engagement, leave placement.Departure,
) action {
	return action{label + " to " + to.target.Key.Name, func() {
		s.begin(pod.UID)
		s.world.start(s.name+" moves", func() {
			if err := s.placer.Vacate(s.ctx, pod, from, leave); err != nil {
				s.failed(pod.UID)
				return
			}
			if leave.Closed {
				s.world.left.Store(true)
			} else {
				s.world.moved.Store(true)
			}
			s.attempt(pod, to)
		})
	}, "the source's scheduler"}
}
