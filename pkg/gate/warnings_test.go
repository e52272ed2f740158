package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestFewWarningsOfATargetEnterTheSource(t *testing.T) {
	web := newProxy()
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, Message: "kept"}
	lying := newChaperon(web, func(c *v1alpha1.PodChaperon) {
		c.Status.Conditions = []corev1.PodCondition{ready}
		for i := range 10_000 {
			c.Status.Conditions = append(c.Status.Conditions, corev1.PodCondition{
				Type:    corev1.PodConditionType(fmt.Sprintf("%sReason%d", v1alpha1.WarningPrefix, i)),
				Reason:  fmt.Sprintf("Reason%d", i),
				Message: strings.Repeat("x\n\x1b", 1000), LastTransitionTime: metav1.Unix(1000, 0),
			})
		}
	})
	list, err := cache.ToListerWithContext(newGate(t, web).ListerWatcher(&server{list: chaperonList(lying)})).
		ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []corev1.PodCondition{ready}
	for i := range translate.MaxWarnings {
		reason, message := fmt.Sprintf("Reason%d", i), strings.Repeat("x ", 1000)
		want = append(want, translate.Warning(reason, message, time.Unix(1000, 0)))
	}
	got := list.(*v1alpha1.PodChaperonList).Items[0].Status.Conditions
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
