package target

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/responsive"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestWhatAnswersSayAboutATarget(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		took   time.Duration
		want   string
	}{
		"in time":       {http.StatusOK, time.Second, v1alpha1.ReasonResponsive},
		"a refusal":     {http.StatusForbidden, time.Second, v1alpha1.ReasonResponsive},
		"invalid":       {http.StatusUnprocessableEntity, 0, v1alpha1.ReasonResponsive},
		"just in time":  {http.StatusOK, responsive.SlowAfter, v1alpha1.ReasonResponsive},
		"slow":          {http.StatusOK, 8 * time.Second, v1alpha1.ReasonSlow},
		"too many":      {http.StatusTooManyRequests, 0, v1alpha1.ReasonThrottled},
		"an error":      {http.StatusInternalServerError, 0, v1alpha1.ReasonFailing},
		"a slow error":  {http.StatusBadGateway, 8 * time.Second, v1alpha1.ReasonFailing},
		"none, quickly": {0, 0, v1alpha1.ReasonFailing},
		"none, late":    {0, timeouts.Request, v1alpha1.ReasonFailing},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, http.StatusOK)
			l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
			changes := 0
			l.connections.changed = func(types.NamespacedName) { changes++ }
			for range 12 {
				l.answered(test.status, test.took)
				f.clock.Step(5 * time.Second)
			}
			got := responsiveCondition(l.quality.Decision(f.clock.Now()), f.refuser)
			if got.Reason != test.want || (got.Status == metav1.ConditionTrue) != (got.Reason == "Responsive") {
				t.Errorf("got %+v, want the reason %s", got, test.want)
			}
			if changes != 1 {
				t.Errorf("%d changes were reported", changes)
			}
		})
	}
}

func TestAConditionOfBeforeStaysWhileNothingIsKnown(t *testing.T) {
	was := metav1.Condition{Type: v1alpha1.ConditionResponsive, Status: metav1.ConditionFalse, Reason: "Slow"}
	status := v1alpha1.TargetStatus{Conditions: []metav1.Condition{was}}
	if got := responsiveOf(finding{}, status); got != was {
		t.Errorf("got %+v", got)
	}
	is := metav1.Condition{Type: v1alpha1.ConditionResponsive, Status: metav1.ConditionTrue}
	if got := responsiveOf(finding{responsive: is}, status); got != is {
		t.Errorf("got %+v", got)
	}
	if got := responsiveOf(finding{}, v1alpha1.TargetStatus{}); got.Type != "" {
		t.Errorf("got %+v, although nothing is known", got)
	}
}

func TestATargetThatIsLostAgainIsSteadyBeforeItIsConnected(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
	up := connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "")
	lose := func() {
		l.report(t.Context(), f.refuser, finding{condition: disconnected(v1alpha1.ReasonUnreachable, "")})
		l.report(t.Context(), f.refuser, finding{condition: disconnected(v1alpha1.ReasonUnreachable, "since then")})
		f.clock.Step(time.Minute)
	}
	lose()
	if got := l.steady(up); got != up {
		t.Fatalf("after the first loss: %+v", got)
	}
	l.report(t.Context(), f.refuser, finding{condition: up})
	lose()
	flaps := l.steady(up)
	if flaps.Reason != v1alpha1.ReasonFlapping || flaps.Status != metav1.ConditionFalse {
		t.Fatalf("after the second loss: %+v", flaps)
	}
	f.clock.Step(10 * time.Second)
	if got := l.steady(up); got != flaps {
		t.Errorf("the condition changes although nothing happens: %+v", got)
	}
	f.clock.Step(10 * time.Second)
	if got := l.steady(up); got != up {
		t.Errorf("it does not settle: %+v", got)
	}
	if !strings.Contains(flaps.Message, f.clock.Now().Add(-5*time.Second).UTC().Format(time.RFC3339)) {
		t.Errorf("the message does not say when it settles: %s", flaps.Message)
	}
}

func TestStepsAreRepeatedOnlyIfTheTargetAnswers(t *testing.T) {
	passing := apierrors.NewTooManyRequests("later", 1)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "l", errors.New("no"))
	for name, test := range map[string]struct {
		err   error
		heard bool
		tries int
	}{
		"throttled, by one that answers now and then": {passing, true, 5},
		"throttled, by one that always throttles":     {passing, false, 1},
		"refused":  {refusal, true, 1},
		"no error": {nil, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, http.StatusOK)
			l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
			misses := maxMisses
			if test.heard {
				misses, l.wasConnected = heardMisses, true
				l.quality.Note(responsive.Good, f.clock.Now())
			}
			if got := l.patience(); got != misses {
				t.Errorf("patience for %d attempts", got)
			}
			tries, done, began := 0, make(chan error), f.clock.Now()
			go func() { done <- l.persistently(t.Context(), func() error { tries++; return test.err }) }()
			if err := f.passUntil(done); !errors.Is(err, test.err) || tries != test.tries {
				t.Errorf("%d tries, and %v", tries, err)
			}
			if pause := f.clock.Since(began); pause < time.Duration(test.tries-1)*time.Second {
				t.Errorf("all tries took %s", pause)
			}
		})
	}
}

// passUntil lets time pass until there is a result.
func (f fixture) passUntil(done <-chan error) error {
	for {
		select {
		case err := <-done:
			return err
		default:
			if f.clock.HasWaiters() {
				f.clock.Step(time.Second)
			}
		}
	}
}

func TestAStepIsNotRepeatedForACallerWhoHasLeft(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	l := newLoop(f.connections, keyC2, f.refuser, nil)
	l.quality.Note(responsive.Good, f.clock.Now())
	ctx, leave := context.WithCancel(t.Context())
	leave()
	tries, done := 0, make(chan error)
	busy := apierrors.NewTooManyRequests("later", 1)
	go func() { done <- l.persistently(ctx, func() error { tries++; return busy }) }()
	if err := f.passUntil(done); !errors.Is(err, busy) || tries != 1 {
		t.Errorf("%d tries, and %v", tries, err)
	}
}

func TestOnlyAPassingErrorOfTheTargetIsAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"busy":      {apierrors.NewTooManyRequests("later", 1), true},
		"a refusal": {apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "l", errors.New("no")), false},
		"none came": {context.DeadlineExceeded, false},
	} {
		if got := isAnswer(test.err); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestASlowTargetGetsMoreTime(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
	if got := l.deadline(); got != healthTimeout {
		t.Errorf("the deadline is %s", got)
	}
	l.doubts = 1
	if got := l.deadline(); got != timeouts.Request {
		t.Errorf("after a miss the deadline is %s", got)
	}
	l.doubts = 0
	l.quality.Note(responsive.Slow, f.clock.Now())
	if got := l.deadline(); got != timeouts.Request || !l.wary() {
		t.Errorf("after a slow answer the deadline is %s, wary: %t", got, l.wary())
	}
}

func TestALossCountsOnce(t *testing.T) {
	for name, test := range map[string]struct {
		was, is string
		want    bool
	}{
		"it is lost":         {v1alpha1.ReasonConnected, v1alpha1.ReasonUnreachable, true},
		"it is lost already": {v1alpha1.ReasonUnreachable, v1alpha1.ReasonUnreachable, false},
		"it comes back":      {v1alpha1.ReasonUnreachable, v1alpha1.ReasonConnected, false},
	} {
		l := newLoop(newFixture(t, http.StatusOK).connections, keyC2, want{}, nil)
		l.noteLoss(test.was, test.is)
		if l.comeback.lost != test.want {
			t.Errorf("%s: it counts as a loss: %t", name, l.comeback.lost)
		}
	}
}

func TestNothingIsSaidOfAnswersThatNobodyAskedFor(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	if got := responsiveCondition(responsive.Decision{State: responsive.Unknown}, f.refuser); got.Type != "" {
		t.Errorf("before there are enough: %+v", got)
	}
	if got := responsiveCondition(responsive.Decision{State: responsive.Responsive}, want{}); got.Type != "" {
		t.Errorf("without credentials: %+v", got)
	}
}
