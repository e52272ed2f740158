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
	ctx context.Context, grant *v1alpha1.SourceGrant, whose *owner,
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
	subjects := []rbacv1.Subject{whose.subject}
	if _, err := p.objects.Ensure(ctx, BindingTo("Role", meta.Name, meta, subjects)); err != nil {
		return nil, err
	}
	lease, err := p.ensureLease(ctx, grant.Name)
	if _, byNamespace := lease.Annotations[v1alpha1.AnnotationReadsByNamespace]; err == nil && byNamespace {
		err = p.endEarlier(ctx, whose)
	}
	return &v1alpha1.LeaseReference{Namespace: meta.Namespace, Name: grant.Name}, err
}

// endEarlier takes the right to read in the whole cluster from a source that does not need it any more.
func (p *Publisher) endEarlier(ctx context.Context, whose *owner) error {
	for _, name := range whose.clusterSources {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: earlierPrefix + name}}
		if err := p.objects.Delete(ctx, binding); err != nil {
			return err
		}
	}
	return nil
}

// ensureLease makes a Lease that nobody holds, unless it exists, and returns it.
func (p *Publisher) ensureLease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.options.LeasesNamespace, Name: name}}
	err := p.options.APIReader.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: p.options.LeasesNamespace, Name: name}}
		err = p.options.Client.Create(ctx, lease, client.FieldOwner(v1alpha1.FieldOwner))
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return lease, fmt.Errorf("making Lease %q in namespace %q: %w", name, p.options.LeasesNamespace, err)
	}
	return lease, nil
}
