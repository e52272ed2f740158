package chaperon

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const carrier = v1alpha1.AnnotationParentLabelPrefix + "0123456789"

// carrying gives a PodChaperon an annotation that carries the value of one of the proxy's labels.
func carrying(value string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Annotations[carrier] = value }
}

func TestADebuggerStartsWithTheValuesOfTheProxy(t *testing.T) {
	for name, test := range map[string]struct {
		was, is *v1alpha1.PodChaperon
		changes []func(*corev1.Pod) // of the delegate, by others
		rules   []client.Object
		want    []string
	}{
		"nothing is missing": {
			was: old(carrying("a")), is: changed(debugged, carrying("a")), want: []string{"ephemeralcontainers", "pod"},
		},
		"nothing is carried": {was: old(), is: changed(debugged), want: []string{"ephemeralcontainers", "pod"}},
		"no debugger":        {was: old(), is: changed(carrying("a")), want: []string{"pod"}},
		"an annotation is new": {
			was: old(), is: changed(debugged, carrying("a")), want: []string{"pod", "ephemeralcontainers", "pod"},
		},
		"an annotation has a new value": {
			was: old(carrying("a")), is: changed(debugged, carrying("b")),
			want: []string{"pod", "ephemeralcontainers", "pod"},
		},
		"somebody removed an annotation": {
			was: old(carrying("a")), is: changed(debugged, carrying("a")),
			changes: []func(*corev1.Pod){func(p *corev1.Pod) { delete(p.Annotations, carrier) }},
			want:    []string{"pod", "ephemeralcontainers", "pod"},
		},
		"there are rules": {
			was: old(), is: changed(debugged, carrying("a")), rules: []client.Object{baselineOnly()},
			want: []string{
				"dry run pod", "pod", "dry run ephemeralcontainers", "ephemeralcontainers", "dry run pod", "pod",
			},
		},
		"resources change, too": {
			was: old(requesting("1")), is: changed(requesting("2"), debugged, carrying("a")),
			want: []string{"resize", "pod", "ephemeralcontainers", "pod"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChanging(t, running(test.was, test.changes...), append(test.rules, test.is)...)
			value := test.is.Annotations[carrier]
			s.refuse = func(request string, _ *corev1.Pod) error {
				pod := s.live()
				if got := pod.Annotations[carrier]; request == ephemeralSubresource && got != value {
					t.Errorf("the debugger starts with %q, want %q", got, value)
				}
				if translate.RevisionOf(pod).Number != 0 {
					t.Errorf("%s: the delegate has the revision before the change is complete", request)
				}
				return nil
			}
			s.mustReconcile()
			s.expectPatches(test.want...)
			pod := s.live()
			if len(pod.Spec.EphemeralContainers) != len(test.is.Spec.EphemeralContainers) ||
				pod.Annotations[carrier] != value || translate.RevisionOf(pod).Number != 1 {
				t.Errorf("containers %v, annotations %v", pod.Spec.EphemeralContainers, pod.Annotations)
			}
			s.mustReconcile()
			s.expectPatches()
		})
	}
}

func TestAnInterruptedDebuggerIsAddedAgain(t *testing.T) {
	s := newChanging(t, running(old()), changed(debugged, carrying("a")))
	down := errors.New("connection reset")
	s.refuse = func(request string, _ *corev1.Pod) error {
		if request == ephemeralSubresource {
			return down
		}
		return nil
	}
	before := s.live().Annotations[v1alpha1.AnnotationApplied]
	if _, err := s.reconcile(); !errors.Is(err, down) {
		t.Fatalf("error %v, want %v", err, down)
	}
	s.expectPatches("pod", "ephemeralcontainers")
	pod := s.live()
	if pod.Annotations[carrier] != "a" || pod.Annotations[v1alpha1.AnnotationApplied] != before {
		t.Errorf("annotations %v", pod.Annotations)
	}

	c := s.chaperon() // Its label changes meanwhile.
	c.Annotations[carrier] = "b"
	c.Annotations[v1alpha1.AnnotationRevision] = translate.Revision{Number: 2, Fingerprint: "f"}.String()
	if err := s.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.refuse = nil
	s.mustReconcile()
	s.expectPatches("pod", "ephemeralcontainers", "pod")
	pod = s.live()
	if pod.Annotations[carrier] != "b" || len(pod.Spec.EphemeralContainers) != 1 ||
		translate.RevisionOf(pod).Number != 2 {
		t.Errorf("containers %v, annotations %v", pod.Spec.EphemeralContainers, pod.Annotations)
	}
	if c := changesCondition(&s.chaperon().Status); c != nil && c.Status == corev1.ConditionFalse {
		t.Errorf("condition %v", c)
	}
}

func TestADebuggerWaitsForAnnotationsThatAreRefused(t *testing.T) {
	s := newChanging(t, running(old()), changed(debugged, carrying("a")))
	requests := 0
	s.refuse = func(string, *corev1.Pod) error {
		if requests++; requests == 1 {
			return forbidden("no such annotation")
		}
		return nil
	}
	if result, err := s.reconcile(); err != nil || result.RequeueAfter != firstChangeRetry {
		t.Errorf("result %v, error %v", result, err)
	}
	s.expectPatches("pod", "pod") // The rest does not wait.
	c := changesCondition(&s.chaperon().Status)
	if c == nil || c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "no such annotation") {
		t.Errorf("condition %v", c)
	}
	if n := len(s.live().Spec.EphemeralContainers); n != 0 {
		t.Errorf("%d debuggers", n)
	}

	s.clock.SetTime(s.clock.Now().Add(firstChangeRetry + time.Second))
	s.mustReconcile()
	s.expectPatches("ephemeralcontainers", "pod")
	if n := len(s.live().Spec.EphemeralContainers); n != 1 {
		t.Errorf("%d debuggers", n)
	}
}
