package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestAStatusOfATargetIsBounded(t *testing.T) {
	web := newProxy()
	lying := newChaperon(web, func(c *v1alpha1.PodChaperon) {
		c.OwnerReferences = []metav1.OwnerReference{{Name: strings.Repeat("x", 1<<20)}}
		c.Finalizers = []string{strings.Repeat("x", 1<<20)}
		c.Status.Phase, c.Status.Message = corev1.PodRunning, strings.Repeat("x", 1<<20)
		warning := translate.Warning("Unhealthy", "kept", time.Unix(1000, 0))
		added := translate.AnnotationsCondition(strings.Repeat("a", 30_000))
		c.Status.Conditions = []corev1.PodCondition{warning, added}
		for i := range 10_000 {
			c.Status.Conditions = append(c.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodConditionType(fmt.Sprint(i)),
			})
		}
	})
	lying.Unknown = []string{"spec.new"}
	strip(lying, false)
	if got := lying.ObjectMeta.Size() + lying.Status.Size(); got > translate.MaxStatus || lying.Unknown != nil {
		t.Errorf("%d bytes are kept, and the fields %q", got, lying.Unknown)
	}
	warnings, others := translate.Warnings(lying.Status.Conditions)
	if len(warnings) != 1 || len(others) > 200 || len(others[0].Message) != 30_000 {
		t.Errorf("%d warnings, %d other conditions", len(warnings), len(others))
	}
}
