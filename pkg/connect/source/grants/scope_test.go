package grants

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func named(names ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names},
	}}
}

func ofTeam(names ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: names},
	}}
}

func TestSelects(t *testing.T) {
	allowed := map[string]string{v1alpha1.LabelSources: v1alpha1.LabelSourcesAllowed}
	left := map[string]string{v1alpha1.LabelSources: v1alpha1.LabelSourcesExcluded}
	teamA := map[string]string{"team": "a"}
	ofTeamA := &metav1.LabelSelector{MatchLabels: teamA}
	for name, c := range map[string]struct {
		selector  *metav1.LabelSelector
		namespace string
		labels    map[string]string
		want      choice
	}{
		"no selector selects":                          {nil, "web", nil, selected},
		"an empty selector selects":                    {&metav1.LabelSelector{}, "web", nil, selected},
		"a selector selects":                           {ofTeamA, "web", teamA, selected},
		"a selector leaves others":                     {ofTeamA, "web", nil, unselected},
		"kube- is left out":                            {nil, "kube-system", nil, excluded},
		"the release's namespace is left out":          {&metav1.LabelSelector{}, "admiralty", nil, excluded},
		"a label leaves out":                           {nil, "web", left, unselected},
		"a label allows":                               {nil, "kube-system", allowed, selected},
		"a label allows only within the selector":      {ofTeamA, "web", allowed, unselected},
		"the selector names it":                        {named("kube-system", "web"), "kube-system", nil, selected},
		"the selector names it by an exact label":      {matchName("admiralty"), "admiralty", nil, selected},
		"the selector names one with the label":        {named("web"), "web", left, selected},
		"a selector of another label does not name it": {ofTeamA, "kube-public", teamA, excluded},
		"the value of another label does not name it": {
			ofTeam("kube-public"), "kube-public", map[string]string{"team": "kube-public"}, excluded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newScope(c.selector, "admiralty")
			if err != nil {
				t.Fatal(err)
			}
			all := map[string]string{corev1.LabelMetadataName: c.namespace}
			maps.Copy(all, c.labels)
			if got := s.selects(c.namespace, all); got != c.want {
				t.Errorf("choice is %d, want %d", got, c.want)
			}
		})
	}
}

func matchName(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		situation situation
		use       use
		want      decision
	}{
		"a selected namespace is given": {situation{choice: selected}, unused, decision{rights: full}},
		"an unselected one is not":      {situation{choice: unselected}, used, decision{rights: none}},
		"an excluded one is not, although default exclusions are not enforced": {
			situation{choice: excluded}, used, decision{rights: none},
		},
		"a namespace that ends stays as it is": {
			situation{choice: selected, terminating: true}, used, decision{rights: none},
		},
		"a deselected one is left if it is used": {situation{has: full}, used, decision{rights: leaving}},
		"a deselected one that is unused first loses the right to create": {
			situation{has: full}, unused, decision{rights: leaving},
		},
		"a deselected one refuses creation at once": {
			situation{has: full}, unknown, decision{rights: leaving, undecided: true},
		},
		"one that is no longer allowed by its label is left": {
			situation{choice: excluded, has: full}, used, decision{rights: leaving},
		},
		"a left one is taken with the last object": {situation{has: leaving}, unused, decision{rights: none}},
		"a left one that is selected again is given": {
			situation{choice: selected, has: leaving}, used, decision{rights: full},
		},
		"an upgrade leaves a used one that is not selected": {
			situation{everywhere: true}, used, decision{rights: leaving},
		},
		"an upgrade waits until the use is known": {situation{everywhere: true}, unknown, decision{undecided: true}},
		"an upgrade keeps a used one that is excluded": {
			situation{choice: excluded, everywhere: true}, used, decision{rights: kept},
		},
		"an upgrade takes an unused one that is excluded": {
			situation{choice: excluded, everywhere: true}, unused, decision{rights: none},
		},
		"after the upgrade it is still kept": {
			situation{choice: excluded, has: kept}, unused, decision{rights: kept},
		},
		"until the default is enforced": {
			situation{choice: excluded, has: kept, enforce: true}, used, decision{rights: leaving},
		},
		"and then is left for a moment, also if it is unused": {
			situation{choice: excluded, has: kept, enforce: true}, unused, decision{rights: leaving},
		},
		"enforced, an upgrade leaves it": {
			situation{choice: excluded, everywhere: true, enforce: true}, used, decision{rights: leaving},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(c.situation, func() use { return c.use }); got != c.want {
				t.Errorf("decision is %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLabelSelectsCreatedObjects(t *testing.T) {
	if !CreatedHere().Matches(labels.Set{LabelSource: ""}) || CreatedHere().Matches(labels.Set{}) {
		t.Errorf("the selector %q does not select the created objects", CreatedHere())
	}
}
