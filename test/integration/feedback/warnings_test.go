package feedback

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestATargetThatLiesAboutWarningsCostsLittle(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "web")
	statusBefore, othersBefore := writesOf(proxy)
	var lies []corev1.PodCondition
	for i := range 10_000 {
		reason := fmt.Sprintf("R%d", i)
		lies = append(lies, corev1.PodCondition{
			Type: v1alpha1.WarningPrefix + corev1.PodConditionType(reason), Reason: reason, Message: "x",
		})
	}
	lies[0].Message = strings.Repeat("endless \x1b[2J\n", 10_000)
	lies[1].LastTransitionTime = metav1.Unix(1<<37, 0)
	lies[2].Reason = "DelegateLost"
	lies[3].Type, lies[3].Reason = v1alpha1.WarningPrefix+"../..", "../.."
	report(t, c, corev1.PodRunning, lies...)
	env.WaitForEvent(t, source, proxy, "R0", "endless")
	waitForWorkers(t, c2)
	var events []eventsv1.Event
	env.Eventually(t, func(context.Context) error { // Each is written by itself.
		if events = env.Events(t, source, proxy); len(events) < 5 {
			return fmt.Errorf("there are %d events", len(events))
		}
		return nil
	})
	var reasons []string
	for i := range events {
		reasons = append(reasons, events[i].Reason)
		if len(events[i].Note) > 1024 || strings.ContainsAny(events[i].Note, "\x1b\n") {
			t.Errorf("the event %q has %d bytes", events[i].Reason, len(events[i].Note))
		}
	}
	slices.Sort(reasons)
	env.ExpectEqual(t, "reasons", []string{"R0", "R1", "R4", "R5", "R6"}, reasons)
	if status, others := writesOf(proxy); status != statusBefore || others != othersBefore {
		t.Errorf("lies wrote the proxy %d times", status-statusBefore+others-othersBefore)
	}
	for _, condition := range env.Get(t, source, proxy).Status.Conditions {
		if translate.IsWarning(condition.Type) {
			t.Errorf("the proxy has the condition %v", condition)
		}
	}
}
