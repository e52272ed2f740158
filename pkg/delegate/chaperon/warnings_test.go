package chaperon

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// known are Warnings that a test sets.
type known struct {
	warnings  []corev1.PodCondition
	forgotten []types.NamespacedName
}

func (k *known) Of(*v1alpha1.PodChaperon) []corev1.PodCondition { return k.warnings }
func (k *known) Forget(key types.NamespacedName)                { k.forgotten = append(k.forgotten, key) }

// shownWarnings returns the messages of the warnings in the status of the PodChaperon.
func (s *stage) shownWarnings() string {
	shown := []string{}
	for _, c := range s.chaperon().Status.Conditions {
		if translate.IsWarning(c.Type) {
			shown = append(shown, c.Message)
		}
	}
	return strings.Join(shown, ", ")
}

func (s *stage) expectWarnings(want string, writes int) {
	s.t.Helper()
	if got := s.shownWarnings(); got != want || s.statusWrites != writes {
		s.t.Errorf("warnings %q after %d writes, want %q after %d", got, s.statusWrites, want, writes)
	}
}

func TestEachNewWarningCostsOneWrite(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	s := newStage(t, chaperon(running), delegate(running))
	warnings := &known{}
	s.reconciler.ShowWarnings(warnings)
	s.mustReconcile()
	s.expectWarnings("", 0)
	warnings.warnings = []corev1.PodCondition{translate.Warning("BackOff", "again", time.Unix(1000, 0))}
	s.mustReconcile()
	s.mustReconcile()
	s.expectWarnings("again", 1)
	pod := delegate(corev1.PodStatus{Phase: corev1.PodRunning, Message: "changed"})
	pod.ResourceVersion = ""
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	warnings.warnings = append(warnings.warnings, translate.Warning("Unhealthy", "no answer", time.Unix(1001, 0)))
	s.mustReconcile() // One write has both.
	s.expectWarnings("again, no answer", 2)
}

func TestWarningsAreShownOfADelegateThatNoSchedulerHasSeen(t *testing.T) {
	pending := corev1.PodStatus{Phase: corev1.PodPending}
	s := newStage(t, chaperon(corev1.PodStatus{}), delegate(pending))
	warnings := &known{}
	s.reconciler.ShowWarnings(warnings)
	s.mustReconcile()
	s.expectWarnings("", 0)
	warnings.warnings = []corev1.PodCondition{
		translate.Warning("FailedResourceClaimCreation", "no template", time.Unix(1000, 0)),
	}
	s.mustReconcile()
	s.mustReconcile()
	s.expectWarnings("no template", 1)
}

func TestWarningsOfAnEarlierLeaderStay(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	shown := *running.DeepCopy()
	for i := range translate.MaxWarnings {
		shown.Conditions = append(shown.Conditions,
			translate.Warning(fmt.Sprintf("Reason%d", i), strconv.Itoa(i), time.Unix(1000, 0)))
	}
	s := newStage(t, chaperon(shown), delegate(running))
	s.mustReconcile() // Without anything that watches warnings.
	s.reconciler.ShowWarnings(&known{})
	s.mustReconcile() // Before the list of events has been read, or after they expired.
	s.expectWarnings("0, 1, 2, 3, 4", 0)
	s.reconciler.ShowWarnings(&known{warnings: []corev1.PodCondition{
		translate.Warning("Reason0", "before", time.Unix(900, 0)),
		translate.Warning("Reason1", "new", time.Unix(1100, 0)),
	}})
	s.mustReconcile()
	s.expectWarnings("0, new, 2, 3, 4", 1)
}

func TestADelegateCannotClaimWarnings(t *testing.T) {
	claims := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
		translate.Warning("Claimed", "by the delegate's own status", time.Unix(1000, 0)),
	}}
	s := newStage(t, chaperon(corev1.PodStatus{}), delegate(claims))
	s.mustReconcile()
	s.mustReconcile()
	s.expectWarnings("", 1)
}

func TestWarningsOfAPodChaperonThatIsGoneAreForgotten(t *testing.T) {
	s := newStage(t)
	warnings := &known{}
	s.reconciler.ShowWarnings(warnings)
	s.mustReconcile()
	if len(warnings.forgotten) != 1 {
		t.Errorf("forgotten: %v", warnings.forgotten)
	}
}
