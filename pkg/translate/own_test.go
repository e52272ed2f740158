package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestDelegateSelectors tests that the requirement is in every place.
func TestSelectorsSelectDelegatesOfTheirOwnSource(t *testing.T) {
	const id, name = own + "parent-cluster-id", own + "parent-cluster-name"
	var (
		ours       = labels.Set{own + "app": "web", "tier": "front", id: "id-of-c1", name: "c1"}
		theirs     = labels.Set{own + "app": "web", "tier": "front", id: "id-of-c3", name: "c3"}
		theTargets = labels.Set{own + "app": "web", "tier": "front"}
	)
	type requirements = []metav1.LabelSelectorRequirement
	for title, tc := range map[string]struct {
		in                       metav1.LabelSelector
		ours, theirs, theTargets bool
	}{
		"a rewritten label": {in: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, ours: true},
		"a label that keeps its key": {
			in: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}, ours: true,
		},
		"the absence of a label": {
			in: metav1.LabelSelector{MatchExpressions: requirements{{Key: "x", Operator: "DoesNotExist"}}}, ours: true,
		},
		"everything": {in: metav1.LabelSelector{}, ours: true},
		"delegates of any source": {
			in: metav1.LabelSelector{
				MatchLabels:      map[string]string{"app": "web"},
				MatchExpressions: requirements{{Key: id, Operator: "Exists"}},
			},
			ours: true, theirs: true,
		},
		"delegates of a source by its name": {
			in: metav1.LabelSelector{MatchLabels: map[string]string{name: "c3"}}, theirs: true,
		},
		"the target's own pods": {
			in:         metav1.LabelSelector{MatchExpressions: requirements{{Key: id, Operator: "DoesNotExist"}}},
			theTargets: true,
		},
		"the target's own pods or ours": {
			in: metav1.LabelSelector{
				MatchExpressions: requirements{{Key: id, Operator: "NotIn", Values: []string{"id-of-c3"}}},
			},
			ours: true, theTargets: true,
		},
	} {
		t.Run(title, func(t *testing.T) {
			pod := elected(map[string]string{"multicluster.admiralty.io/no-prefix-label-regexp": "^tier="},
				func(spec *corev1.PodSpec) { everywhere(spec, &tc.in) })
			spec := mustChaperon(t, mustProxy(t, pod)).Spec
			selector, err := metav1.LabelSelectorAsSelector(spec.TopologySpreadConstraints[0].LabelSelector)
			if err != nil {
				t.Fatal(err)
			}
			got := []bool{selector.Matches(ours), selector.Matches(theirs), selector.Matches(theTargets)}
			if diff := cmp.Diff([]bool{tc.ours, tc.theirs, tc.theTargets}, got); diff != "" {
				t.Errorf("%s selects ours, another source's, the target's (-want +got):\n%s", selector, diff)
			}
		})
	}
}
