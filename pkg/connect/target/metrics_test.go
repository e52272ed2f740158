package target

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// reasonsShown returns the reasons with the value 1, by target.
func reasonsShown(t *testing.T, registry *prometheus.Registry) map[string][]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string][]string{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() != "multicluster_scheduler_target_reason" || series.GetGauge().GetValue() != 1 {
				continue
			}
			labels := series.GetLabel() // in the order of their names
			shown[labels[1].GetValue()] = append(shown[labels[1].GetValue()], labels[0].GetValue())
		}
	}
	return shown
}

func TestTheReasonOfATargetIsAMetric(t *testing.T) {
	m, registry := newMetrics(), prometheus.NewRegistry()
	if err := m.register(registry); err != nil {
		t.Fatal(err)
	}
	c2, c3 := types.NamespacedName{Name: "c2"}, types.NamespacedName{Namespace: "team", Name: "c3"}
	for _, step := range []struct {
		do   func()
		want map[string][]string
	}{
		{func() { m.set(c3, disconnected(v1alpha1.ReasonFlapping, "")) }, map[string][]string{"team/c3": {"Flapping"}}},
		{
			func() { m.set(c2, connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "")) },
			map[string][]string{"c2": {"Connected"}, "team/c3": {"Flapping"}},
		},
		{
			func() { m.set(c2, disconnected(v1alpha1.ReasonTurnedBack, "")) },
			map[string][]string{"c2": {"TurnedBack"}, "team/c3": {"Flapping"}},
		},
		{func() { m.forgetTarget(c3) }, map[string][]string{"c2": {"TurnedBack"}}},
		{func() { m.forgetTarget(c2) }, map[string][]string{}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, reasonsShown(t, registry)); diff != "" {
			t.Errorf("reasons (-want +got):\n%s", diff)
		}
	}
}

const unusableSecret = "multicluster_scheduler_target_secret_unusable"

// valuesOf returns the values of all series of a gauge.
func valuesOf(t *testing.T, registry *prometheus.Registry, name string) []float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []float64
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == name {
				values = append(values, series.GetGauge().GetValue())
			}
		}
	}
	return values
}

func TestASecretThatCannotBeUsedIsAMetric(t *testing.T) {
	key := types.NamespacedName{Name: "c2"}
	works := connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "")
	unreadable := disconnected(v1alpha1.ReasonSecretNotFound, "")
	for name, test := range map[string]struct {
		condition metav1.Condition
		others    []metav1.Condition
		want      float64
	}{
		"the Secret is in use":       {condition: works},
		"the connection goes on":     {works, []metav1.Condition{unusable(unreadable)}, 1},
		"there is another warning":   {works, []metav1.Condition{{Type: v1alpha1.ConditionRestricted}}, 0},
		"the Secret is gone":         {unreadable, nil, 1},
		"the Secret lacks its key":   {disconnected(v1alpha1.ReasonSecretKeyNotFound, ""), nil, 1},
		"its kubeconfig is broken":   {disconnected(v1alpha1.ReasonInvalidKubeconfig, ""), nil, 1},
		"the target does not answer": {disconnected(v1alpha1.ReasonUnreachable, ""), nil, 0},
	} {
		m, registry := newMetrics(), prometheus.NewRegistry()
		if err := m.register(registry); err != nil {
			t.Fatal(err)
		}
		m.set(key, disconnected(v1alpha1.ReasonSecretNotFound, ""))
		m.set(key, test.condition, test.others...)
		if diff := cmp.Diff([]float64{test.want}, valuesOf(t, registry, unusableSecret)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if m.forgetTarget(key); len(valuesOf(t, registry, unusableSecret)) > 0 {
			t.Errorf("%s: it outlives its target", name)
		}
	}
}
