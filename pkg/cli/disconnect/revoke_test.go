package disconnect

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

func TestHowToEndTheDelegatesOfARevokedSource(t *testing.T) {
	const byID = " -l multicluster.admiralty.io/parent-cluster-id=id"
	const unsure = "delete their PodChaperons. The source had no spec.clusterID and could write any label, so look " +
		"at all of them: kubectl --context c2 get podchaperons "
	for name, test := range map[string]struct {
		source client.Object
		want   string
	}{
		"a ClusterSource": {
			&v1alpha1.ClusterSource{Spec: v1alpha1.ClusterSourceSpec{ClusterID: "id"}},
			"run: kubectl --context c2 delete podchaperons --all-namespaces" + byID,
		},
		"a Source": {
			&v1alpha1.Source{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1alpha1.SourceSpec{ClusterID: "id"},
			},
			"run: kubectl --context c2 delete podchaperons --namespace shop" + byID,
		},
		"a source that could choose its ID": {&v1alpha1.ClusterSource{}, unsure + "--all-namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := endDelegates(&cluster.Cluster{Context: "c2"}, test.source); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
