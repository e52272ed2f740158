package scheduling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

const (
	// admission is how long a target may hold a pod behind scheduling gates until the source looks elsewhere. Then the
	// pod waits in a queue. Each time that the pod moves away from a target doubles the time there.
	admission = 20 * time.Second
	// firstLook and lastLook are how long nobody looks elsewhere for a pod for which that was in vain: the first time,
	// and at most.
	firstLook, lastLook = time.Second, time.Minute
)

// stays are the pods that wait in a target, and may move to another one that has room.
type stays struct {
	clock clock.WithDelayedExecution

	mu    sync.Mutex // guards byPod and all in it
	byPod map[types.UID]*stay
}

// stay is a pod's wait in a target. Only the goroutine that waits uses wait and timer.
type stay struct {
	attempts.Stay

	pod   *corev1.Pod
	in    *target
	wait  placement.Wait
	timer clock.Timer
	// open says that other targets may take the pod.
	open bool
}

func newStays(c clock.WithDelayedExecution) *stays {
	return &stays{clock: c, byPod: map[types.UID]*stay{}}
}

// newStay returns the stay of a pod that may not move yet.
func (p *plugin) newStay(pod *corev1.Pod, t *target, remembered attempts.Stay) *stay {
	return &stay{Stay: remembered, pod: pod, in: t}
}

// waits notes why the pod waits in its target now. Sooner or later the pod may move.
func (p *plugin) waits(s *stay, wait placement.Wait) {
	if wait == s.wait {
		return
	}
	s.wait = wait
	p.stays.end(s)
	if wait != placement.Gated && s.in.Ledger.Unqueue(s.pod.UID) {
		p.waker.targetSoon(s.in) // Perhaps its queue takes others now.
	}
	if wait == placement.Undecided {
		return
	}
	now := p.clock.Now()
	opens := now
	if s.Looks > 0 {
		opens = now.Add(min(firstLook<<min(s.Looks-1, 10), lastLook))
	}
	if admitted := s.Since.Add(p.admission(s.pod, s.in)); wait == placement.Gated && admitted.After(opens) {
		opens = admitted
	}
	p.stays.begin(s, opens.Sub(now), func() {
		if wait == placement.Gated {
			s.in.Ledger.Queue(s.pod.UID, s.pod.Namespace)
		}
		p.look(s.pod.UID)
	})
}

// admission returns how long a target may hold this pod behind gates.
func (p *plugin) admission(pod *corev1.Pod, in *target) time.Duration {
	memory, err := p.attempts.Of(pod)
	if err != nil {
		return admission
	}
	return admission << min(memory.Moves[in.NodeName], 10)
}

// begin lets other targets take the pod after a time, and then calls opened.
func (s *stays) begin(of *stay, after time.Duration, opened func()) {
	s.mu.Lock()
	s.byPod[of.pod.UID] = of
	s.mu.Unlock()
	open := func() {
		s.mu.Lock()
		lasts := s.byPod[of.pod.UID] == of
		of.open = lasts
		s.mu.Unlock()
		if lasts {
			opened()
		}
	}
	if after <= 0 {
		open()
		return
	}
	of.timer = s.clock.AfterFunc(after, open)
}

// end has the pod stay where it is, as long as it does not begin again.
func (s *stays) end(of *stay) {
	if of.timer != nil {
		of.timer.Stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of.open = false
	if s.byPod[of.pod.UID] == of {
		delete(s.byPod, of.pod.UID)
	}
}

// of returns the stay of a pod, or nil if no other target may take the pod.
func (s *stays) of(pod types.UID) *stay {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.byPod[pod]; found != nil && found.open {
		return found
	}
	return nil
}

// elsewhere returns the pods that a target may take from others: the most important and then the oldest first.
func (s *stays) elsewhere(t *target) []*corev1.Pod {
	s.mu.Lock()
	var pods []*corev1.Pod
	for _, of := range s.byPod {
		if of.open && of.in != t {
			pods = append(pods, of.pod)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	return pods
}

// offer invites as many of the pods that wait in other targets as the target seems to have room for. The scheduler
// decides: invited pods keep their delegates until the room is reserved for them.
func (p *plugin) offer(t *target) {
	room := t.Ledger.Room()
	for _, pod := range p.stays.elsewhere(t) {
		c, err := p.newCycle(pod)
		if err == nil && p.objection(c, pod, t) == "" && c.prefers(pod, t, room) {
			room = room.With(c.Demand)
			p.placer.Delegates.Invite(pod.UID)
		}
	}
}

// look invites a pod that waits in a target if another one seems to have room.
func (p *plugin) look(uid types.UID) {
	s := p.stays.of(uid)
	if s == nil {
		return
	}
	c, err := p.newCycle(s.pod)
	if err != nil {
		return
	}
	for _, other := range p.targets.all() {
		t := p.targets.get(other.NodeName)
		if t != nil && p.objection(c, s.pod, t) == "" && c.prefers(s.pod, t, t.Ledger.Room()) {
			p.placer.Delegates.Invite(uid)
			return
		}
	}
}

// prefers says whether a pod that waits in its holder had better be in this target, which has so much room. The target
// must not have had the pod in vain more often than the holder has refused it. So a pod leaves a target at most once
// between two refusals, and does not wander between full queues.
func (c *cycle) prefers(pod *corev1.Pod, t *target, room *fit.Room) bool {
	if c.holder == nil || c.holder == t.Target {
		return false
	}
	refusals := c.Turns[c.holder.NodeName] - c.Moves[c.holder.NodeName]
	return c.Turns[t.NodeName] <= refusals && room.Fits(c.Demand) && !t.Ledger.Queues(pod.Namespace, c.Demand)
}

// mayMove says whether the pod was invited to leave its holder, which had not scheduled the delegate.
func (p *plugin) mayMove(c *cycle, pod *corev1.Pod) bool {
	return c.holder != nil && c.Stay.Invited && c.Stay.NodeName == c.holder.NodeName &&
		!p.placer.Delegates.ScheduledIn(c.holder, pod.UID)
}

// vacate withdraws the delegate from its holder, and takes back the claims that bind the pod to the holder. The room in
// the other target is reserved by now. A closed holder that has scheduled the delegate stays the holder. The cache does
// not show this yet, so it is given the time of a back-off. So is a holder that keeps a claim of the pod.
func (p *plugin) vacate(ctx context.Context, c *cycle, pod *corev1.Pod, to *target) error {
	leave := placement.Departure{Reason: to.Name() + " has room"}
	if c.leaves != "" {
		leave = placement.Departure{Reason: c.leaves, Closed: true}
	}
	if err := p.leave(ctx, c, pod, leave); err != nil {
		p.attempts.Declined(pod.UID)
		p.wakeNext(client.ObjectKeyFromObject(pod))
		return err
	}
	p.explanations.Ended(pod, c.holder.Name(), diagnosis.Moved, leave.Reason)
	if c.Stay.NodeName == c.holder.NodeName { // Otherwise an earlier leader began the wait.
		p.metrics.placed(c.holder.Name(), diagnosis.Moved, p.clock.Since(c.Stay.Since))
	}
	if c.leaves == "" {
		p.attempts.Moved(pod)
	}
	if c.claims {
		return p.follower.Release(ctx, pod, c.holder.Target)
	}
	return nil
}

// keptError says that a pod does not leave its holder now, although another target has room.
type keptError struct {
	placement.InvitedError

	why error
}

// Error says what keeps the pod.
func (e *keptError) Error() string { return e.InvitedError.Error() + ", but " + e.why.Error() }

// Unwrap returns the invitation, and what keeps the pod.
func (e *keptError) Unwrap() []error { return []error{&e.InvitedError, e.why} }

// leave withdraws the delegate, unless the claims of the pod surely keep it there. An *placement.InvitedError says that
// the delegate is still there.
func (p *plugin) leave(ctx context.Context, c *cycle, pod *corev1.Pod, leave placement.Departure) error {
	if c.claims {
		if err := p.follower.MayRelease(ctx, pod, c.holder.Target); err != nil {
			return &keptError{InvitedError: placement.InvitedError{Target: c.holder.Name()}, why: err}
		}
	}
	err := p.placer.Vacate(ctx, pod, c.holder, leave)
	if leave.Closed && invited(err) {
		return fmt.Errorf("the pod stays in %s: its delegate is scheduled there", c.holder.Name())
	}
	return err
}

// invited says whether a pod is to be scheduled again because another target may have room for it.
func invited(err error) bool { return errors.As(err, new(*placement.InvitedError)) }
