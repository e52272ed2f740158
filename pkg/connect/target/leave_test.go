package target

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

func TestCopiesAreLeftToAnotherTargetOfTheCluster(t *testing.T) {
	target := &engage.Target{Key: types.NamespacedName{Name: "c2"}, ClusterID: "c2-id"}
	for name, test := range map[string]struct {
		other *engage.Target
		want  bool
	}{
		"a target that leads to the cluster": {
			&engage.Target{Key: types.NamespacedName{Name: "eu"}, ClusterID: "c2-id"}, true,
		},
		"a target that leads to the cluster for the namespace": {
			&engage.Target{Key: types.NamespacedName{Namespace: "shop", Name: "eu"}, ClusterID: "c2-id"}, true,
		},
		"not a target that leads to the cluster for another namespace": {
			&engage.Target{Key: types.NamespacedName{Namespace: "other", Name: "eu"}, ClusterID: "c2-id"}, false,
		},
		"not a target of another cluster": {
			&engage.Target{Key: types.NamespacedName{Name: "eu"}, ClusterID: "c3-id"}, false,
		},
		"not a target whose cluster is unknown": {&engage.Target{Key: types.NamespacedName{Name: "eu"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0)
			if err := f.options.Registry.Engage(t.Context(), test.other); err != nil {
				t.Fatal(err)
			}
			siblings := newLoop(f.connections, target.Key, want{}, nil).siblings(target, "shop")
			if got := len(siblings) > 0; got != test.want {
				t.Errorf("taken: got %t, want %t", got, test.want)
			}
		})
	}
}
