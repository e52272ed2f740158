package targetkind_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

func TestATargetWasConnectedUntilItsConditionSaysSo(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	connected := func(status metav1.ConditionStatus, changed time.Time) []metav1.Condition {
		return []metav1.Condition{{
			Type: v1alpha1.ConditionConnected, Status: status, LastTransitionTime: metav1.NewTime(changed),
		}}
	}
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       bool
	}{
		"it was never connected":        {nil, false},
		"it is connected":               {connected(metav1.ConditionTrue, noon.Add(-time.Hour)), true},
		"it was lost afterwards":        {connected(metav1.ConditionFalse, noon.Add(time.Hour)), true},
		"it was lost at this very time": {connected(metav1.ConditionFalse, noon), true},
		"it was lost before":            {connected(metav1.ConditionFalse, noon.Add(-time.Second)), false},
		"nobody knows":                  {connected(metav1.ConditionUnknown, noon.Add(-time.Hour)), true},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere := &v1alpha1.ClusterTarget{Status: v1alpha1.TargetStatus{Conditions: test.conditions}}
			inNamespace := &v1alpha1.Target{Status: v1alpha1.TargetStatus{Conditions: test.conditions}}
			if got := targetkind.ConnectedSince(everywhere, noon); got != test.want {
				t.Errorf("the ClusterTarget: %t, want %t", got, test.want)
			}
			if got := targetkind.ConnectedSince(inNamespace, noon); got != test.want {
				t.Errorf("the Target: %t, want %t", got, test.want)
			}
		})
	}
}
