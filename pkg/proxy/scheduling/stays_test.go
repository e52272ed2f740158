package scheduling

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
)

// waitsIn has a pod wait in a target that says it with this PodChaperon, and returns what comes of the attempt.
func (w *world) waitsIn(t *testing.T, pod *corev1.Pod, in *target, reason string) <-chan error {
	t.Helper()
	chaperon := newChaperon("c-"+pod.UID, pod.UID,
		schedulingtest.With(corev1.PodScheduled, corev1.ConditionFalse, reason, "full"))
	w.placer.Delegates.Seen(in.Target, chaperon)
	in.Ledger.Place(pod.UID, w.demandOf(t, pod))
	done := make(chan error, 1)
	c, err := w.newCycle(pod)
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- w.attempt(t.Context(), c, pod, in) }()
	eventually(t, "the pod waits", func() bool {
		w.stays.mu.Lock()
		defer w.stays.mu.Unlock()
		return w.stays.byPod[pod.UID] != nil
	})
	return done
}

func (w *world) demandOf(t *testing.T, pod *corev1.Pod) *fit.Demand {
	t.Helper()
	memory, err := w.attempts.Of(pod)
	if err != nil {
		t.Fatal(err)
	}
	return memory.Demand
}

// growing engages a full target that can add nodes.
func (w *world) growing(t *testing.T, name string) *target {
	t.Helper()
	return w.growingWith(t, name, interceptor.Funcs{})
}

func (w *world) growingWith(t *testing.T, name string, funcs interceptor.Funcs) *target {
	t.Helper()
	full := w.engage(t, name, funcs)
	full.Ledger.Update(summary(resources("0", "64Gi")))
	timeout := &metav1.Duration{Duration: time.Hour}
	w.withPolicy(full, &v1alpha1.PlacementPolicy{
		ScaleUp: &v1alpha1.ScaleUp{Timeout: timeout}, QueueingTimeout: timeout,
	})
	return full
}

func (w *world) empty(t *testing.T, name string) *target {
	t.Helper()
	added := w.engage(t, name, interceptor.Funcs{})
	added.Ledger.Update(summary(resources("0", "64Gi")))
	return added
}

func TestOnlyAsManyWaitingPodsAreInvitedAsThereIsRoomFor(t *testing.T) {
	w := newWorld()
	c1, c2 := w.growing(t, "c1"), w.empty(t, "c2")
	var done []<-chan error
	for i, uid := range []types.UID{"new", "old", "important", "big"} {
		pod := newPod(uid, list("cpu", "1"))
		pod.Name = string(uid)
		pod.CreationTimestamp = metav1.NewTime(time.Unix(int64(100-i), 0))
		switch uid {
		case "important":
			pod = important(pod)
			pod.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
		case "big":
			pod.Spec.Containers[0].Resources.Requests = list("cpu", "5")
		}
		done = append(done, w.waitsIn(t, pod, c1, corev1.PodReasonUnschedulable))
	}
	c2.Ledger.Update(summary(resources("2", "64Gi")))
	w.waker.target(c2)
	for _, i := range []int{1, 2} {
		if err := receive(t, "the invitation", done[i]); !invited(err) {
			t.Errorf("pod %d: %v, want an invitation", i, err)
		}
	}
	w.stays.mu.Lock()
	defer w.stays.mu.Unlock()
	if w.stays.byPod["new"] == nil || w.stays.byPod["big"] == nil || len(w.stays.byPod) != 2 {
		t.Errorf("these still wait: %v", w.stays.byPod)
	}
}

func TestAPodBehindGatesIsInvitedWhenItsTargetHadTheTimeToAdmitIt(t *testing.T) {
	for name, test := range map[string]struct {
		from  string // where the pod moved away, so far
		moves int
		want  time.Duration
	}{
		"it never moved":           {"", 0, 20 * time.Second},
		"it was in another target": {"admiralty-c3", 2, 20 * time.Second},
		"it was there once":        {"admiralty-c1", 1, 40 * time.Second},
		"it was there 3 times":     {"admiralty-c1", 3, 160 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1 := w.growing(t, "c1")
			c2 := w.engage(t, "c2", interceptor.Funcs{})
			pod := newPod("p", list("cpu", "1"))
			for range test.moves {
				w.attempts.StayIn(pod, test.from)
				w.attempts.Moved(pod)
			}
			done := w.waitsIn(t, pod, c1, corev1.PodReasonSchedulingGated)
			w.waker.target(c2)
			w.clock.Step(test.want - time.Second)
			w.waker.target(c2)
			select {
			case err := <-done:
				t.Fatalf("too early: %v", err)
			default:
			}
			if c1.Ledger.Queues("default", w.demandOf(t, pod)) {
				t.Error("it counts as queued too early")
			}
			w.clock.Step(time.Second)
			if err := receive(t, "the invitation", done); !invited(err) {
				t.Errorf("error is %v", err)
			}
			if !c1.Ledger.Queues("default", w.demandOf(t, pod)) {
				t.Error("it does not count as queued")
			}
		})
	}
}

func TestAPodThatIsLetThroughTakesRoomAgain(t *testing.T) {
	w := newWorld()
	c1, pod := w.growing(t, "c1"), newPod("p", list("cpu", "1"))
	w.waitsIn(t, pod, c1, corev1.PodReasonSchedulingGated)
	w.clock.Step(30 * time.Second)
	eventually(t, "the pod is queued", func() bool { return c1.Ledger.Queues("default", w.demandOf(t, pod)) })
	w.placer.Delegates.Seen(c1.Target, newChaperon("c-p", "p"))
	eventually(t, "the pod is let through", func() bool { return !c1.Ledger.Queues("default", w.demandOf(t, pod)) })
}

// TestWhereAPodThatWaitsMayMove has a pod that waits in c1, while c2 has room.
func TestWhereAPodThatWaitsMayMove(t *testing.T) {
	for name, test := range map[string]struct {
		happens   func(w *world, pod *corev1.Pod, c2 *target)
		want      []string // that pass the filter
		uninvited bool
	}{
		"the other has room": {
			happens: func(*world, *corev1.Pod, *target) {}, want: []string{"admiralty-c1", "admiralty-c2"},
		},
		"the other has none": {happens: func(_ *world, _ *corev1.Pod, c2 *target) {
			c2.Ledger.Update(summary(resources("0", "64Gi")))
		}, want: []string{"admiralty-c1"}},
		"the other has a queue": {happens: func(w *world, pod *corev1.Pod, c2 *target) {
			c2.Ledger.Place("q", w.demandOf(t, pod))
			c2.Ledger.Queue("q", "default")
		}, want: []string{"admiralty-c1"}},
		"the other refused the pod": {happens: func(w *world, pod *corev1.Pod, _ *target) {
			w.refuse(pod, "admiralty-c2", attempts.TimeOrMoreRoom, "slow")
			w.attempts.Lift("admiralty-c2")
			w.attempts.StayIn(pod, "admiralty-c1")
		}, want: []string{"admiralty-c1"}},
		"both refused the pod": {happens: func(w *world, pod *corev1.Pod, _ *target) {
			for _, nodeName := range []string{"admiralty-c1", "admiralty-c2"} {
				w.refuse(pod, nodeName, attempts.TimeOrMoreRoom, "slow")
				w.attempts.Lift(nodeName)
			}
			w.attempts.StayIn(pod, "admiralty-c1")
		}, want: []string{"admiralty-c1", "admiralty-c2"}},
		"the pod came from the other": {happens: func(w *world, pod *corev1.Pod, _ *target) {
			w.attempts.StayIn(pod, "admiralty-c2")
			w.attempts.Moved(pod)
			w.attempts.StayIn(pod, "admiralty-c1")
		}, want: []string{"admiralty-c1"}},
		"the pod came from either": {happens: func(w *world, pod *corev1.Pod, _ *target) {
			for _, nodeName := range []string{"admiralty-c1", "admiralty-c2"} {
				w.attempts.StayIn(pod, nodeName)
				w.attempts.Moved(pod)
			}
			w.attempts.StayIn(pod, "admiralty-c1")
		}, want: []string{"admiralty-c1"}},
		"the delegate is scheduled": {happens: func(w *world, _ *corev1.Pod, _ *target) {
			w.placer.Delegates.Seen(w.targets.get("admiralty-c1").Target, newChaperon("c", "p",
				schedulingtest.With(corev1.PodScheduled, corev1.ConditionTrue, "", "")))
		}, want: []string{"admiralty-c1"}},
		"the pod was not invited": {
			happens: func(*world, *corev1.Pod, *target) {}, uninvited: true, want: []string{"admiralty-c1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.growing(t, "c1"), w.engage(t, "c2", interceptor.Funcs{})
			pod := newPod("p", list("cpu", "1"))
			w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p",
				schedulingtest.With(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")))
			w.attempts.StayIn(pod, c1.NodeName)
			test.happens(w, pod, c2)
			if !test.uninvited {
				w.attempts.Invited(pod.UID)
			}
			if diff := cmp.Diff(test.want, w.passing(t, pod, c1, c2)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// passing returns the nodes of the targets that pass our filters, the best last.
func (w *world) passing(t *testing.T, pod *corev1.Pod, all ...*target) []string {
	t.Helper()
	state := framework.NewCycleState()
	result, status := w.PreFilter(t.Context(), state, pod, nil)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	var passing []string
	scores := fwk.NodeScoreList{}
	for _, at := range all {
		if !result.AllNodes() && !result.NodeNames.Has(at.NodeName) {
			continue
		}
		node := newNode(at.NodeName, resources("64", "64Gi"))
		if w.Filter(t.Context(), state, pod, node).IsSuccess() {
			score, _ := turns{}.Score(t.Context(), state, pod, node)
			scores = append(scores, fwk.NodeScore{Name: at.NodeName, Score: score})
		}
	}
	if len(scores) > 1 {
		turns{}.NormalizeScore(t.Context(), state, pod, scores)
	}
	slices.SortStableFunc(scores, func(a, b fwk.NodeScore) int { return int(a.Score - b.Score) })
	for _, s := range scores {
		passing = append(passing, s.Name)
	}
	return passing
}

func TestAnInvitedPodKeepsItsRoomWhereItWaits(t *testing.T) {
	w := newWorld()
	c1, pod := w.engage(t, "c1", interceptor.Funcs{}), newPod("p", list("cpu", "8"))
	state, c := framework.NewCycleState(), &cycle{holder: nil}
	state.Write(Name, c)
	c1.Ledger.Place(pod.UID, w.demandOf(t, pod))
	for _, stays := range []bool{true, false} {
		c.stays = stays
		w.Unreserve(t.Context(), state, pod, c1.NodeName)
		if takes := !c1.Ledger.Room().Fits(w.demandOf(t, pod)); takes != stays {
			t.Errorf("the delegate stays: %t, the pod takes room: %t", stays, takes)
		}
	}
}

func TestAPodStaysWhereItsDelegateIsScheduledMeanwhile(t *testing.T) {
	w := newWorld()
	c1, c2 := w.growing(t, "c1"), w.empty(t, "c2")
	pod := newPod("p", list("cpu", "1"))
	done := w.waitsIn(t, pod, c1, corev1.PodReasonUnschedulable)
	c2.Ledger.Update(summary(resources("8", "64Gi")))
	w.waker.target(c2)
	if err := receive(t, "the invitation", done); !invited(err) {
		t.Fatal(err)
	}
	w.placer.Delegates.Seen(c1.Target, newChaperon("c-p", "p",
		schedulingtest.With(corev1.PodScheduled, corev1.ConditionTrue, "", "")))
	c, err := w.newCycle(pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.attempt(t.Context(), c, pod, c2); !invited(err) {
		t.Errorf("error is %v", err)
	}
	if memory, _ := w.attempts.Of(pod); memory.Stay.Invited || memory.Stay.NodeName != c1.NodeName {
		t.Errorf("the pod's stay is %+v", memory.Stay)
	}
	if c2.Target == w.placer.Delegates.Holder(pod.UID) {
		t.Error("the pod has moved")
	}
}

// TestAPodTakesItsClaimsAlong has a pod with a claim that waits in c1. Then c2 has room.
func TestAPodTakesItsClaimsAlong(t *testing.T) {
	used := errors.New("another pod uses it")
	for name, test := range map[string]struct {
		claims          followed
		invited, leaves bool
	}{
		"a claim without data":                    {followed{objection: "in c1", releasable: true}, true, true},
		"a claim with data":                       {followed{objection: "in c1"}, false, false},
		"a claim that others use":                 {followed{releasable: true, used: used}, true, false},
		"a claim that comes to be used meanwhile": {followed{releasable: true, kept: used}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			var c1 *target
			withdraw := func(
				context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
			) error {
				w.placer.Delegates.Gone(c1.Target, newChaperon("c-p", "p"))
				return nil
			}
			c1 = w.growingWith(t, "c1", interceptor.Funcs{Patch: withdraw})
			c2 := w.empty(t, "c2")
			w.follower = &test.claims
			pod := newPod("p", list("cpu", "1"))
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
			done := w.waitsIn(t, pod, c1, corev1.PodReasonUnschedulable)
			c2.Ledger.Update(summary(resources("8", "64Gi")))
			c, err := w.newCycle(pod)
			if err != nil {
				t.Fatal(err)
			}
			if passes := w.objection(c, pod, c2) == ""; passes != test.invited {
				t.Fatalf("the other target passes: %t, want %t", passes, test.invited)
			}
			if !test.invited {
				return
			}
			w.waker.target(c2)
			if err := receive(t, "the invitation", done); !invited(err) {
				t.Fatal(err)
			}
			err = w.vacate(t.Context(), c, pod, c2)
			if left := w.placer.Delegates.Holder(pod.UID) == nil; left != test.leaves {
				t.Errorf("it has left: %t, want %t (%v)", left, test.leaves, err)
			}
			if test.claims.used == nil && test.claims.kept == nil {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, used) {
				t.Errorf("error %v, want %v", err, used)
			}
			if released := len(test.claims.released) > 0; released != test.leaves {
				t.Errorf("released: %v", test.claims.released)
			}
		})
	}
}
