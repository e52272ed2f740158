package scheduling

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestWhatATargetMayHaveBesideAProxyIsKnownUntilTheProxyIsGone has a target that was lost when it was asked for a
// delegate, and a proxy that is bound elsewhere then.
func TestWhatATargetMayHaveBesideAProxyIsKnownUntilTheProxyIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		nodeName string
		state    placement.ProxyState
		known    bool
	}{
		"it is bound":                 {"admiralty-c2", placement.ProxyBound, true},
		"it was bound":                {"admiralty-c2", placement.ProxyGone, true}, // It may have finished.
		"it is gone, and had no node": {"", placement.ProxyGone, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			slow := func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewTimeoutError("slow", 0)
			}
			c1 := w.engage(t, "c1", interceptor.Funcs{Create: slow})
			w.placer = placement.New(placement.Options{
				Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
				Sign:   func(proof.Claim) (string, error) { return "signed", nil },
				Ensure: func(context.Context, *corev1.Pod, *engage.Target) error { return nil },
			})
			s, pod := &Scheduler{plugin: w.plugin}, newPod("p", nil)
			expected := placement.Expectation{Waiting: func(placement.Wait, string) {}}
			if _, err := w.placer.Place(t.Context(), pod, c1.Target, expected); err == nil {
				t.Fatal("the target has answered")
			}
			pod.Spec.NodeName = test.nodeName
			s.proxyConcluded(pod, test.state)
			if known := s.PlacedBeside(pod.UID, "admiralty-c2") == c1.Target.Target; known != test.known {
				t.Errorf("it is known: %t, want %t", known, test.known)
			}
			if beside := s.PlacedBeside(pod.UID, c1.NodeName); beside != nil {
				t.Errorf("beside its own node is %s", beside.NodeName)
			}
		})
	}
}

// following engages a target whose informers are fakes, as the manager does. Nothing is known of the target's room.
func (w *world) following(
	ctx context.Context, t *testing.T,
) (*Scheduler, *engage.Target, *informertest.FakeInformers) {
	t.Helper()
	engaged := schedulingtest.Engage(t, w.registry, "c1", interceptor.Funcs{})
	informers := &informertest.FakeInformers{Scheme: engaged.Client.Scheme()}
	engaged.Cache = informers
	s := &Scheduler{plugin: w.plugin, clock: w.clock, clusterID: "source", engaged: make(chan struct{}, 1)}
	if err := s.Engaged(ctx, engaged); err != nil {
		t.Fatal(err)
	}
	return s, engaged, informers
}

// informerOf returns the informer of a kind.
func informerOf(
	t *testing.T, of *informertest.FakeInformers, kind client.Object,
) *controllertest.FakeInformer {
	t.Helper()
	informer, err := of.FakeInformerFor(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	return informer
}

func TestATargetThatIsEngagedTakesPodsUntilItIsDisengaged(t *testing.T) {
	w, pods, pod := newWorld(), &playedQueue{}, newPod("p", nil)
	w.waker.started(pods, klog.Background())
	w.refuse(pod, "admiralty-c1", attempts.FixedTime, "quota")
	w.withElder(t, pod, clusterTarget("c1", "v1", metav1.ConditionTrue, created))
	w.clock.Step(time.Second)
	ctx, disengage := context.WithCancel(t.Context())
	s, engaged, _ := w.following(ctx, t)
	c1 := w.targets.get(engaged.NodeName)
	if c1 == nil || c1.Target.Target != engaged || !c1.Since.Equal(w.clock.Now()) {
		t.Fatalf("the target is %v", c1)
	}
	if w.isLeftOut(t, pod) {
		t.Error("it is left out for what it said before")
	}
	if reason, err := w.elders.waits(ctx, pod, nil); reason != "" || err != nil {
		t.Errorf("an elder %s (%v)", reason, err)
	}
	if woken := pods.count(c1); woken != 1 || len(s.engaged) != 1 {
		t.Errorf("pods are woken %d times, and the start %d times", woken, len(s.engaged))
	}
	disengage()
	eventually(t, "pods are woken by the end", func() bool { return pods.count(c1) == 2 })
	if w.targets.get(engaged.NodeName) != nil {
		t.Error("it still takes pods")
	}
}

func TestATargetThatIsNotFollowedTakesNoPods(t *testing.T) {
	for name, fails := range map[string]error{"its cache fails": errors.New("no"), "it is disengaged meanwhile": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			engaged := schedulingtest.Engage(t, w.registry, "c1", interceptor.Funcs{})
			engaged.Cache = &informertest.FakeInformers{Scheme: engaged.Client.Scheme(), Error: fails}
			s := &Scheduler{plugin: w.plugin, clock: w.clock, engaged: make(chan struct{}, 1)}
			ctx, disengage := context.WithCancel(t.Context())
			defer disengage()
			if fails == nil {
				disengage()
			}
			if err := s.Engaged(ctx, engaged); err == nil || w.targets.get(engaged.NodeName) != nil ||
				len(s.engaged) > 0 {
				t.Errorf("it takes pods: %v", err)
			}
		})
	}
}

func TestOnlyTheClusterSummarySaysHowMuchRoomATargetHas(t *testing.T) {
	w, pods, pod := newWorld(), &playedQueue{}, newPod("p", list("cpu", "4"))
	w.waker.started(pods, klog.Background())
	ctx, disengage := context.WithCancel(t.Context())
	_, engaged, informers := w.following(ctx, t)
	c1 := w.targets.get(engaged.NodeName)
	summaries := informerOf(t, informers, &v1alpha1.ClusterSummary{})
	leaveOut := func() { w.refuse(pod, c1.NodeName, attempts.TimeOrMoreRoom, "full") }
	full, free := summary(resources("1", "1Gi")), summary(resources("8", "64Gi"))
	another := free.DeepCopy()
	another.Name = "another"
	for _, test := range []struct {
		name    string
		happens func()
		fits    bool
		lifted  bool
		woken   int // so far
	}{
		{"another object is there", func() { summaries.Add(another) }, false, false, 1},
		{"the summary shows a little room", func() { summaries.Add(full) }, false, true, 2},
		{"it shows room", func() {
			w.clock.Step(wakeInterval)
			summaries.Update(full, free)
		}, true, true, 3},
		{"it shows the same", func() {
			w.clock.Step(wakeInterval)
			summaries.Update(free, free)
		}, true, false, 3},
		{"another object is gone", func() { summaries.Delete(another) }, true, false, 3},
		{"the summary is gone", func() { summaries.Delete(free) }, false, false, 3},
	} {
		leaveOut()
		test.happens()
		if fits := c1.Ledger.Room().Fits(w.demandOf(t, pod)); fits != test.fits {
			t.Errorf("%s: the pod fits: %t", test.name, fits)
		}
		eventually(t, test.name, func() bool { return pods.count(c1) == test.woken })
		if lifted := !w.isLeftOut(t, pod); lifted != test.lifted {
			t.Errorf("%s: the target is not left out any more: %t", test.name, lifted)
		}
	}
	disengage()
}

func TestPodChaperonsOfAnEngagedTargetAreKnown(t *testing.T) {
	w, pods, pod := newWorld(), &playedQueue{}, newPod("p", list("cpu", "1"))
	w.waker.started(pods, klog.Background())
	_, engaged, informers := w.following(t.Context(), t)
	c1, chaperon := w.targets.get(engaged.NodeName), newChaperon("c", pod.UID)
	chaperons := informerOf(t, informers, &v1alpha1.PodChaperon{})
	if chaperons.Add(chaperon); w.placer.Delegates.Holder(pod.UID) != c1.Target {
		t.Error("the PodChaperon is not known")
	}
	if chaperons.Delete(chaperon); w.placer.Delegates.Has(c1.Target, pod.UID) {
		t.Error("the PodChaperon is not forgotten")
	}
	if diff := cmp.Diff([]types.UID{pod.UID}, pods.woken()); diff != "" {
		t.Errorf("woken: %s", diff)
	}
}

// TestTheRoomOfADelegateThatEndsIsGivenToOthers has a delegate that the target's summary does not count yet.
func TestTheRoomOfADelegateThatEndsIsGivenToOthers(t *testing.T) {
	finished := schedulingtest.InPhase(corev1.PodSucceeded)
	for name, test := range map[string]struct {
		happens func(s *Scheduler, c1 *target)
		placed  bool
		want    int // how often others are woken
	}{
		"it has finished": {
			func(s *Scheduler, c1 *target) { s.chaperonSeen(c1, newChaperon("c", "p", finished)) }, true, 1,
		},
		"it is gone": {
			func(s *Scheduler, c1 *target) { s.chaperonGone(c1, newChaperon("c", "p")) }, true, 1,
		},
		"it has finished and is gone": {func(s *Scheduler, c1 *target) {
			s.chaperonSeen(c1, newChaperon("c", "p", finished))
			s.chaperonGone(c1, newChaperon("c", "p", finished))
		}, true, 1},
		"it runs": {
			func(s *Scheduler, c1 *target) { s.chaperonSeen(c1, newChaperon("c", "p", scheduledThere)) }, true, 0,
		},
		"an earlier one is gone": {func(s *Scheduler, c1 *target) {
			s.chaperonSeen(c1, newChaperon("next", "p"))
			s.chaperonGone(c1, newChaperon("c", "p"))
		}, true, 0},
		"its room was counted": {
			func(s *Scheduler, c1 *target) { s.chaperonGone(c1, newChaperon("c", "p")) }, false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pods, pod := newWorld(), &playedQueue{}, newPod("p", list("cpu", "1"))
			w.waker.started(pods, klog.Background())
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			s := &Scheduler{plugin: w.plugin, clock: w.clock}
			s.chaperonSeen(c1, newChaperon("c", "p"))
			if test.placed {
				c1.Ledger.Place(pod.UID, w.demandOf(t, pod))
			}
			test.happens(s, c1)
			if gathers := w.clock.HasWaiters(); gathers != (test.want > 0) {
				t.Errorf("others are woken soon: %t", gathers)
			}
			w.clock.Step(gather)
			eventually(t, "others are woken", func() bool { return pods.count(c1) == test.want })
		})
	}
}

func TestALossWakesPodsOnce(t *testing.T) {
	w, pods := newWorld(), &playedQueue{}
	w.waker.started(pods, klog.Background())
	c1, s := w.engage(t, "c1", interceptor.Funcs{}), &Scheduler{plugin: w.plugin}
	s.Lost(&engage.Target{NodeName: c1.NodeName}) // An earlier engagement of the same target.
	s.Lost(&engage.Target{NodeName: "another"})
	if woken := pods.count(c1); woken != 0 {
		t.Errorf("others wake the target's pods %d times", woken)
	}
	s.PolicyChanged(c1.Target.Target)
	s.Lost(c1.Target.Target)
	if woken := pods.count(c1); woken != 2 {
		t.Errorf("its pods are woken %d times, want 2", woken)
	}
}
