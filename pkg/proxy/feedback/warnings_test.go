package feedback

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var (
	leaderBegan = time.Unix(1500, 0)
	warnedAt    = time.Unix(99, 0) // by the target's clock
)

// withWarnings is a PodChaperon that shows warnings.
func withWarnings(warnings ...corev1.PodCondition) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Status.Conditions = warnings }
}

// bornAt is a proxy that is so old.
func bornAt(at time.Time) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(at) }
}

func backOff(message string, at time.Time) corev1.PodCondition {
	return translate.Warning("BackOff", message, at)
}

func TestWhichWarningsAreRecorded(t *testing.T) {
	now := leaderBegan.Add(time.Hour)
	elder, young := bornAt(leaderBegan.Add(-time.Minute)), bornAt(leaderBegan.Add(time.Minute))
	seen := func(recorded time.Time) seenWarnings {
		return seenWarnings{"c1", map[corev1.PodConditionType]seenWarning{
			backOff("", now).Type: {warnedAt, "first", recorded},
		}}
	}
	for name, test := range map[string]struct {
		proxy    func(*corev1.Pod)
		warned   seenWarnings
		warnings []corev1.PodCondition
		want     []string
		wait     time.Duration
		changed  bool
	}{
		"none of a healthy pod":                {proxy: young},
		"none of a healthy elder that is seen": {proxy: elder, warned: seenWarnings{chaperon: "c1"}},
		"none of a healthy elder":              {proxy: elder, changed: true},
		"the first one": {
			proxy: young, warnings: []corev1.PodCondition{backOff("first", warnedAt)},
			want: []string{"first"}, changed: true,
		},
		"not what an earlier leader may have recorded": {
			proxy: elder, warnings: []corev1.PodCondition{backOff("first", warnedAt)}, changed: true,
		},
		"the first one of an elder that was healthy": {
			proxy: elder, warned: seenWarnings{chaperon: "c1"},
			warnings: []corev1.PodCondition{backOff("first", warnedAt)}, want: []string{"first"}, changed: true,
		},
		"not the same one again": {
			proxy: young, warned: seen(now.Add(-time.Minute)),
			warnings: []corev1.PodCondition{backOff("first", warnedAt)}, changed: true,
		},
		"a repeated one": {
			proxy: young, warned: seen(now.Add(-time.Minute)),
			warnings: []corev1.PodCondition{backOff("first", warnedAt.Add(time.Minute))},
			want:     []string{"first"}, changed: true,
		},
		"one from an earlier time, because a target's clock may be set back": {
			proxy: young, warned: seen(now.Add(-time.Minute)),
			warnings: []corev1.PodCondition{backOff("first", warnedAt.Add(-time.Minute))},
			want:     []string{"first"}, changed: true,
		},
		"a repeated one of an elder, whose first one was not recorded": {
			proxy: elder, warned: seen(time.Time{}),
			warnings: []corev1.PodCondition{backOff("second", warnedAt.Add(time.Minute))},
			want:     []string{"second"}, changed: true,
		},
		"a repeated one later, if the last one is recent": {
			proxy: young, warned: seen(now.Add(-3 * time.Second)),
			warnings: []corev1.PodCondition{backOff("second", warnedAt.Add(time.Minute))},
			wait:     7 * time.Second, changed: true,
		},
		"another reason at once": {
			proxy: young, warned: seen(now.Add(-3 * time.Second)),
			warnings: []corev1.PodCondition{
				backOff("first", warnedAt), translate.Warning("Unhealthy", "no answer", warnedAt),
			},
			want: []string{"no answer"}, changed: true,
		},
		"all of another PodChaperon of a young proxy": {
			proxy: young, warned: seenWarnings{"before", seen(now).byType},
			warnings: []corev1.PodCondition{backOff("first", warnedAt)}, want: []string{"first"}, changed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := decide(state{
				nodeName: node, proxy: proxy(test.proxy),
				chaperons: []v1alpha1.PodChaperon{chaperon(withWarnings(test.warnings...))},
				now:       now, began: leaderBegan, warned: test.warned,
			})
			if (p.warnings != nil) != test.changed || p.wait != test.wait {
				t.Fatalf("warnings %v, wait %s", p.warnings, p.wait)
			}
			var got []string
			if p.warnings != nil {
				for _, c := range p.warnings.fresh {
					got = append(got, c.Message)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if p.status != nil {
				t.Errorf("a warning changes the status of the proxy: %v", p.status.Conditions)
			}
		})
	}
}

// leads makes the scene's manager a leader since then.
func (s *scene) leads(since time.Time) { s.feedback.warned.begin(since) }

func (s *scene) mustReconcile() {
	s.t.Helper()
	if _, err := s.reconcile(); err != nil {
		s.t.Fatal(err)
	}
}

// warns makes the target show these warnings.
func (s *scene) warns(warnings ...corev1.PodCondition) {
	c := chaperon(withWarnings(warnings...))
	s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{c} }
}

func TestAWarningIsRecordedOncePerOccurrence(t *testing.T) {
	s := newScene(t, proxy(bornAt(leaderBegan)))
	s.leads(leaderBegan)
	version := s.now().ResourceVersion
	s.warns()
	s.mustReconcile()
	s.expectEvents()
	for i := range 3 {
		s.warns(backOff("again", warnedAt.Add(time.Duration(i)*time.Minute)))
		s.mustReconcile()
		s.mustReconcile()
		s.expectEvents("BackOff")
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
	}
	if got := s.now().ResourceVersion; got != version {
		t.Error("a warning wrote the proxy")
	}
}

func TestAWarningOfADelegateThatLacksSomethingIsPassedOn(t *testing.T) {
	s := newScene(t, proxy(bornAt(leaderBegan)))
	s.leads(leaderBegan)
	passed := 0
	options := s.feedback.options
	options.CannotStart = func(pod *corev1.Pod, target *engage.Target) {
		if pod.UID != s.now().UID || target != s.engaged {
			t.Errorf("pod %s in target %v", pod.UID, target.Key)
		}
		passed++
	}
	s.reconciler = New(options).Reconciler(s.engaged)
	for _, step := range []struct {
		reason string
		want   int
	}{{"BackOff", 0}, {"FailedMount", 1}, {"FailedMount", 1}, {"Unhealthy", 1}, {"Failed", 2}} {
		s.warns(translate.Warning(step.reason, "message", warnedAt))
		s.mustReconcile()
		if passed != step.want {
			t.Errorf("after %s, %d were passed on, want %d", step.reason, passed, step.want)
		}
	}
}

func TestANewLeaderRecordsWhatIsNewOnly(t *testing.T) {
	s := newScene(t, proxy(bornAt(leaderBegan.Add(-time.Hour))))
	s.leads(leaderBegan)
	s.warns(backOff("before", warnedAt), translate.Warning("Unhealthy", "before", warnedAt))
	s.mustReconcile()
	s.expectEvents()
	s.warns(backOff("after", warnedAt.Add(time.Minute)), translate.Warning("Unhealthy", "before", warnedAt))
	s.mustReconcile()
	s.expectEvents("BackOff")
}

func TestATargetThatIsEngagedAnewDoesNotRepeatWarnings(t *testing.T) {
	s := newScene(t, proxy(bornAt(leaderBegan)))
	s.leads(leaderBegan)
	s.warns(backOff("again", warnedAt))
	s.mustReconcile()
	s.expectEvents("BackOff")
	s.reconciler = s.feedback.Reconciler(s.engaged)
	s.mustReconcile()
	s.expectEvents()
}

func TestTheWarningsOfATargetHaveABudget(t *testing.T) {
	s := newScene(t, proxy(bornAt(leaderBegan)))
	s.leads(leaderBegan)
	recorder := events.NewFakeRecorder(1000)
	s.feedback.options.Recorder = recorder
	change := 0
	lie := func() {
		change++
		s.warns(translate.Warning(fmt.Sprintf("Reason%d", change), "a lie", warnedAt))
	}
	for range 2 * warningsBurst {
		lie()
		s.mustReconcile()
	}
	if got := len(recorder.Events); got != warningsBurst {
		t.Errorf("%d events, want %d", got, warningsBurst)
	}
	lie()
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != warnLater {
		t.Errorf("result %v, error %v", result, err)
	}
	s.clock.SetTime(s.clock.Now().Add(warnLater))
	s.mustReconcile()
	if got := len(recorder.Events); got != warningsBurst+1 {
		t.Errorf("%d events, want %d: what the budget did not allow is recorded later", got, warningsBurst+1)
	}
	if seen, _ := s.feedback.warned.of(s.now(), s.engaged.Key); len(seen.byType) > translate.MaxWarnings {
		t.Errorf("%d warnings are remembered", len(seen.byType))
	}
}

func TestTheWarningsOfAProxyThatIsGoneAreForgotten(t *testing.T) {
	s := newScene(t, proxy(bornAt(leaderBegan)))
	s.leads(leaderBegan)
	s.warns(backOff("again", warnedAt))
	s.mustReconcile()
	if len(s.feedback.warned.byProxy) != 1 {
		t.Fatalf("%v is remembered", s.feedback.warned.byProxy)
	}
	s.cachedProxy = func() *corev1.Pod { return nil }
	s.mustReconcile()
	if len(s.feedback.warned.byProxy) != 0 {
		t.Errorf("%v is remembered", s.feedback.warned.byProxy)
	}
}

func TestALostDelegateSaysWhyTheTargetDeletesIt(t *testing.T) {
	terminating := corev1.PodCondition{
		Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonDelegateTerminating,
	}
	disrupted := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler",
		Message: "default-scheduler: preempting\nto accommodate a higher priority pod",
	}
	was := disrupted
	was.Status = corev1.ConditionFalse
	const deleted = "the delegate pod is being deleted in the target cluster"
	for name, test := range map[string]struct {
		conditions []corev1.PodCondition
		want       string
	}{
		"if it tells": {
			[]corev1.PodCondition{disrupted, terminating},
			deleted + ": PreemptionByScheduler: default-scheduler: preempting to accommodate a higher priority pod",
		},
		"and nothing if it does not": {[]corev1.PodCondition{terminating}, deleted},
		"and nothing if it was to":   {[]corev1.PodCondition{was, terminating}, deleted},
	} {
		t.Run(name, func(t *testing.T) {
			c := chaperon(withWarnings(test.conditions...))
			removal := removeWithDelegate(proxy(), &c)
			if removal == nil || removal.message != test.want {
				t.Errorf("removal %+v", removal)
			}
		})
	}
}
