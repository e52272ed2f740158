package policies

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	own := func(p *networkingv1.NetworkPolicy) {
		p.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: ""}
	}
	for name, test := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		record record
		want   step
	}{
		"of a new policy, nobody knows whether it selects proxies": {policyOf("web"), record{}, look},
		"a pod that was seen is enough":                            {policyOf("web"), record{seen: "web-0"}, say},
		"one look is enough":                                       {policyOf("web"), record{looked: true}, nothing},
		"a pod that comes later is reported": {
			policyOf("web"), record{looked: true, seen: "web-0"}, say,
		},
		"an event that API servers still keep suffices": {
			policyOf("web"), record{seen: "web-1", said: now.Add(-59 * time.Minute)}, nothing,
		},
		"after an hour, a further pod is reported": {
			policyOf("web"), record{seen: "web-1", said: now.Add(-time.Hour)}, say,
		},
		"after an hour without further pods, nothing is": {
			policyOf("web"), record{looked: true, said: now.Add(-time.Hour)}, nothing,
		},
		"targets have a policy of their own": {policyOf("web", own), record{seen: "web-0"}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(test.policy, test.record, now); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
