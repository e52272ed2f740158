package restriction

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestClaims(t *testing.T) {
	const account = "system:serviceaccount:default:account"
	ofCluster := func(user, clusterID string) client.Object {
		return &v1alpha1.ClusterSource{
			ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec:       v1alpha1.ClusterSourceSpec{UserName: user, ClusterID: clusterID},
		}
	}
	source := func(namespace, clusterID string) client.Object {
		return &v1alpha1.Source{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
			Spec:       v1alpha1.SourceSpec{UserName: "u", ServiceAccountName: "account", ClusterID: clusterID},
		}
	}
	for name, test := range map[string]struct {
		user    string
		sources []client.Object
		want    Claim
	}{
		"a ClusterSource names the ID":      {"u", []client.Object{ofCluster("u", "c1")}, FullClaim},
		"a ClusterSource names none":        {"u", []client.Object{ofCluster("u", "")}, ClaimWhereGranted},
		"a ClusterSource names another":     {"u", []client.Object{ofCluster("u", "c2")}, NoClaim},
		"a Source names the ID":             {"u", []client.Object{source("default", "c1")}, FullClaim},
		"a Source names none":               {"u", []client.Object{source("default", "")}, FullClaim},
		"a Source gives its account the ID": {account, []client.Object{source("default", "c1")}, FullClaim},
		"a Source of another namespace":     {"u", []client.Object{source("team", "c1")}, NoClaim},
		"of both kinds, the Source gives it": {
			"u", []client.Object{ofCluster("u", ""), source("default", "c1")}, FullClaim,
		},
		"a user of no source": {"other", []client.Object{ofCluster("u", "c1"), source("default", "c1")}, NoClaim},
		"nobody":              {"", []client.Object{ofCluster("", "c1")}, NoClaim},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			r := New(fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.sources...).Build(), "")
			if got, err := r.ClaimOf(t.Context(), test.user, "c1", "default"); got != test.want || err != nil {
				t.Errorf("claim %d, want %d; error %v", got, test.want, err)
			}
			if got, _ := r.ClaimOf(t.Context(), test.user, "", "default"); got != NoClaim {
				t.Errorf("claim %d to no ID", got)
			}
		})
	}
}
