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
	seen := v1alpha1.TargetStatus{KubernetesVersion: "v1.37.0"}
	for name, test := range map[string]struct {
		status     v1alpha1.TargetStatus
		conditions []metav1.Condition
		want       bool
	}{
		"nobody has looked at it":       {seen, nil, false},
		"it is connected":               {seen, connected(metav1.ConditionTrue, noon.Add(-time.Hour)), true},
		"it was lost afterwards":        {seen, connected(metav1.ConditionFalse, noon.Add(time.Hour)), true},
		"it was lost at this very time": {seen, connected(metav1.ConditionFalse, noon), true},
		"it was lost before":            {seen, connected(metav1.ConditionFalse, noon.Add(-time.Second)), false},
		"nobody knows":                  {seen, connected(metav1.ConditionUnknown, noon.Add(-time.Hour)), true},
		"it was never connected": {
			v1alpha1.TargetStatus{NodeName: "admiralty-c2"},
			connected(metav1.ConditionFalse, noon.Add(time.Hour)), false,
		},
		"its cluster's ID is known": {
			v1alpha1.TargetStatus{ClusterID: "c2"}, connected(metav1.ConditionFalse, noon.Add(time.Hour)), true,
		},
		"it had its Lease": {
			v1alpha1.TargetStatus{Epoch: 1}, connected(metav1.ConditionFalse, noon.Add(time.Hour)), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.status.Conditions = test.conditions
			everywhere := &v1alpha1.ClusterTarget{Status: test.status}
			inNamespace := &v1alpha1.Target{Status: test.status}
			if got := targetkind.ConnectedSince(everywhere, noon); got != test.want {
				t.Errorf("the ClusterTarget: %t, want %t", got, test.want)
			}
			if got := targetkind.ConnectedSince(inNamespace, noon); got != test.want {
				t.Errorf("the Target: %t, want %t", got, test.want)
			}
		})
	}
}
