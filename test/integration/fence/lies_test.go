package fence

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestNoTenantOfTheTargetKeepsTheDelegatesOfASilentSource has a tenant that writes Sources in its own namespace. Their
// users renew with the cluster IDs of others, which the label of each delegate shows. Another one gives the user of a
// ClusterSource without a cluster ID one that it does not have.
func TestNoTenantOfTheTargetKeepsTheDelegatesOfASilentSource(t *testing.T) {
	t.Parallel()
	team := env.Namespace(t, nil, c2)
	source := func(clusterID string) func(account string) client.Object {
		return func(account string) client.Object {
			return &v1alpha1.Source{
				ObjectMeta: env.Meta(team, account),
				Spec:       v1alpha1.SourceSpec{ServiceAccountName: account, ClusterID: clusterID},
			}
		}
	}
	named := connect(t, "named")
	nameless := connectBy(t, "nameless", env.ReleaseNamespace, func(account string) client.Object {
		return clusterSource(account, "")
	})
	connectBy(t, "named", team, source("named")).renew(t)
	connectBy(t, "nameless", team, source("")).renew(t)
	env.Create(t, c2, &v1alpha1.Source{
		ObjectMeta: env.Meta(team, "of-another"),
		Spec:       v1alpha1.SourceSpec{UserName: nameless.user, ClusterID: "evil"},
	})
	env.WaitFor(t, c2, nameless.grant(), func(grant *v1alpha1.SourceGrant) error {
		if !slices.Contains(grant.Status.Namespaces, team) || grant.Status.ClusterID != "" {
			return fmt.Errorf("the Source does not count, or its cluster ID does: %+v", grant.Status)
		}
		return nil
	})

	target := newTarget(t)
	silence := []func(){named.renew(t), nameless.renew(t)}
	ofNamed := place(t, target, "of-named", "named", timeouts.FenceLeast)
	ofNameless := place(t, target, "of-nameless", "nameless", timeouts.FenceLeast)
	for _, fallSilent := range silence {
		fallSilent()
	}
	ofNamed.waitFor(t, v1alpha1.ReasonDelegateFenced)
	ofNameless.waitFor(t, v1alpha1.ReasonDelegateFenced)
}
