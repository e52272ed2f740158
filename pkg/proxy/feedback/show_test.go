package feedback

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// spend spends the target's budget of statuses, but so many.
func (s *scene) spend(but int) {
	s.t.Helper()
	worker, ok := s.reconciler.(*reconciler)
	if !ok || !worker.statuses.AllowN(s.clock.Now(), statusesBurst-but) {
		s.t.Fatal("there is no burst")
	}
}

// reportsWithoutEnd makes the target report twice as many statuses as the budget allows, one after another, each of
// which differs from the ones before. It counts those that the source writes.
func (s *scene) reportsWithoutEnd(budget int, change func(i int, c *v1alpha1.PodChaperon)) (written int) {
	s.t.Helper()
	s.onStatus(func(write func() error) error { written++; return write() })
	s.spend(budget)
	for i := range 2 * budget {
		c := ours()
		change(i, c)
		s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{*c} }
		s.mustReconcile()
	}
	return written
}

func says(text string) func(int, *v1alpha1.PodChaperon) {
	return func(i int, c *v1alpha1.PodChaperon) { c.Status.Message = fmt.Sprintf("%d%s", i, text) }
}

func TestTheStatusesOfOneTargetAreWrittenAtALimitedRate(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		most int
	}{
		"small ones": {"", 50},
		"large ones": {strings.Repeat("x", 9*statusPart/2), 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy(), ours())
			if got := s.reportsWithoutEnd(50, says(test.text)); got != test.most {
				t.Errorf("%d writes, want %d", got, test.most)
			}
		})
	}
}

// A target can show another version of a PodChaperon, or one without a proxy, as often as it likes.
func TestATargetGivesCauseToReadAtALimitedRate(t *testing.T) {
	for name, s := range map[string]*scene{
		"a change that the PodChaperon lacks": newScene(t, proxy(labelled), ours()),
		"a PodChaperon without a proxy":       newScene(t, ours()),
	} {
		t.Run(name, func(t *testing.T) {
			worker, ok := s.reconciler.(*reconciler)
			if !ok || !worker.reads.AllowN(s.clock.Now(), readsBurst) {
				t.Fatal("there is no burst")
			}
			s.fail["live proxy"] = errDown
			result, err := s.reconcile()
			if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > readLater {
				t.Errorf("result %v, error %v", result, err)
			}
			delete(s.fail, "live proxy")
			s.clock.SetTime(s.clock.Now().Add(readLater))
			s.mustReconcile()
			if len(s.requests) != 1 {
				t.Errorf("requests %v", s.requests)
			}
		})
	}
}

func TestAStatusThatWaitsIsWrittenLater(t *testing.T) {
	s := newScene(t, proxy(), ours())
	s.spend(0)
	s.cachedChaperons = func() []v1alpha1.PodChaperon {
		return []v1alpha1.PodChaperon{*ours(func(c *v1alpha1.PodChaperon) { c.Status.Message = "later" })}
	}
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != showLater || s.now().Status.Message != "" {
		t.Fatalf("result %v, error %v, status %v", result, err, s.now().Status)
	}
	s.clock.SetTime(s.clock.Now().Add(showLater))
	result, err = s.reconcile()
	if err != nil || result.RequeueAfter != 0 || s.now().Status.Message != "later" {
		t.Errorf("result %v, error %v, status %v", result, err, s.now().Status)
	}
}

func TestTheEndOfADelegateDoesNotWaitForABudget(t *testing.T) {
	for _, end := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		s := newScene(t, proxy(), ours(showing(end)))
		s.spend(0)
		if _, err := s.reconcile(); err != nil || s.now().Status.Phase != end {
			t.Errorf("error %v, phase %s, want %s", err, s.now().Status.Phase, end)
		}
	}
}

func TestAnAddressIsHiddenWhateverTheBudget(t *testing.T) {
	const refused = "127.0.0.1"
	s := newScene(t, proxy(func(pod *corev1.Pod) {
		pod.Status.PodIP, pod.Status.PodIPs = refused, []corev1.PodIP{{IP: refused}}
	}), ours(func(c *v1alpha1.PodChaperon) {
		c.Status.PodIP, c.Status.PodIPs = refused, []corev1.PodIP{{IP: refused}}
	}))
	s.spend(0)
	if _, err := s.reconcile(); err != nil || s.now().Status.PodIP != "" {
		t.Errorf("error %v, address %q", err, s.now().Status.PodIP)
	}
}
