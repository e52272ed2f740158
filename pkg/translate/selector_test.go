package translate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDelegateSelectorAndBackAgain(t *testing.T) {
	type set = map[string]string
	source := Source{ClusterID: "c1"}
	keep := set{v1alpha1.AnnotationNoPrefixLabelRegexp: "^tier="}
	for name, test := range map[string]struct {
		selector, annotations, want set
	}{
		"keys are rewritten, and only our own delegates selected": {
			selector: set{"app": "web", "app.kubernetes.io/part-of": "shop"},
			want: set{
				"multicluster.admiralty.io/app": "web", "multicluster.admiralty.io/part-of": "shop",
				v1alpha1.LabelParentClusterID: "c1",
			},
		},
		"a key that matches the regular expression stays": {
			selector: set{"app": "web", "tier": "front"}, annotations: keep,
			want: set{"multicluster.admiralty.io/app": "web", "tier": "front", v1alpha1.LabelParentClusterID: "c1"},
		},
		"a Service without a selector gets none": {},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DelegateSelector(test.selector, test.annotations, source)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("selector (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.selector, UserSelector(got, test.selector)); diff != "" {
				t.Errorf("and back (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := DelegateSelector(set{"app": "web"}, set{v1alpha1.AnnotationNoPrefixLabelRegexp: "("},
		source); err == nil {
		t.Error("an invalid regular expression is no error")
	}
}

func TestUserSelectorAfterTheUserChangedTheSelector(t *testing.T) {
	type set = map[string]string
	for name, test := range map[string]struct{ selector, original, want set }{
		"a selector that was never rewritten": {selector: set{"app": "web"}, want: set{"app": "web"}},
		"the original, restored by an update of the whole object": {
			selector: set{"app": "web"}, original: set{"app": "web"}, want: set{"app": "web"},
		},
		"the original, merged into ours by kubectl apply": {
			selector: set{"app": "web", "multicluster.admiralty.io/app": "web"}, original: set{"app": "web"},
			want: set{"app": "web"},
		},
		"a new selector, merged into ours": {
			selector: set{"app": "new", "multicluster.admiralty.io/app": "web"}, original: set{"app": "web"},
			want: set{"app": "new"},
		},
		"a selector with fewer keys, merged into ours by kubectl apply": {
			selector: set{
				"app": "web", "multicluster.admiralty.io/app": "web", "multicluster.admiralty.io/tier": "front",
			},
			original: set{"app": "web", "tier": "front"}, want: set{"app": "web"},
		},
		"a selector with fewer keys, of which one kept its key": {
			selector: set{
				"app": "web", "tier": "front", "multicluster.admiralty.io/app": "web",
				"multicluster.admiralty.io/zone": "a",
			},
			original: set{"app": "web", "tier": "front", "zone": "a"}, want: set{"app": "web", "tier": "front"},
		},
		"a key that was kept is not the user's change, even if another key was rewritten to the same": {
			selector: set{"multicluster.admiralty.io/app": "web", "app": "web"},
			original: set{"app": "web", "example.com/app": "web"},
			want:     set{"app": "web", "example.com/app": "web"},
		},
		"a new selector in place of ours": {
			selector: set{"tier": "front"}, original: set{"app": "web", "tier": "front"}, want: set{"tier": "front"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, UserSelector(test.selector, test.original)); diff != "" {
				t.Errorf("selector (-want +got):\n%s", diff)
			}
		})
	}
}
