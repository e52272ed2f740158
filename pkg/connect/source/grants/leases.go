package grants

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// leaseInterval is how often a Lease is looked for that somebody may have deleted. Leases are not watched: each source
// renews its own every five seconds.
const leaseInterval = 10 * time.Minute

// giveLease makes the Lease of a source, lets the source hold it, and returns its name. It returns nil if there are no
// Leases here. The Lease has no owner: it remembers how far the source was, also while a (Cluster)Source is replaced.
func (p *Publisher) giveLease(
	ctx context.Context, grant *v1alpha1.SourceGrant, subject rbacv1.Subject,
) (*v1alpha1.LeaseReference, error) {
	if p.options.LeasesNamespace == "" {
		return nil, nil //nolint:nilnil // documented
	}
	meta := owned(grant)
	meta.Namespace = p.options.LeasesNamespace
	rule := func(name string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			ResourceNames: []string{name}, Verbs: verbs,
		}
	}
	_, err := p.objects.Ensure(ctx, RoleWith(meta, []rbacv1.PolicyRule{
		rule(grant.Name, "get", "watch", "update"), rule(v1alpha1.LeaseManager, "get"),
	}))
	if err != nil {
		return nil, err
	}
	if _, err := p.objects.Ensure(ctx, BindingTo("Role", meta.Name, meta, []rbacv1.Subject{subject})); err != nil {
		return nil, err
	}
	return &v1alpha1.LeaseReference{Namespace: meta.Namespace, Name: grant.Name}, p.ensureLease(ctx, grant.Name)
}

// ensureLease makes a Lease that nobody holds, unless it exists.
func (p *Publisher) ensureLease(ctx context.Context, name string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.options.LeasesNamespace, Name: name}}
	err := p.options.APIReader.Get(ctx, client.ObjectKeyFromObject(lease), &coordinationv1.Lease{})
	if apierrors.IsNotFound(err) {
		err = p.options.Client.Create(ctx, lease, client.FieldOwner(v1alpha1.FieldOwner))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making Lease %q: %w", client.ObjectKeyFromObject(lease), err)
	}
	return nil
}
