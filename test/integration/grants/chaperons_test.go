package grants

import (
	"context"
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestNamespacesWithPodChaperonsArePublished(t *testing.T) {
	run(t, false, nil)
	namespace, others := namespaceWithPod(t, team("uses")), namespaceWithPod(t, team("uses"))
	c1, c2 := newIdentity(t), newIdentity(t)
	c1.connect(t, selecting(team("uses")))
	c2.connect(t, selecting(team("uses")))
	c1.expect(t, namespace, all)
	c2.expect(t, others, all)
	env.Must(t, c1.client.Create(t.Context(), c1.chaperon(namespace, "web")))
	env.Must(t, c2.client.Create(t.Context(), c2.chaperon(others, "web")))
	for who, want := range map[*identity]string{&c1: namespace, &c2: others} {
		env.WaitFor(t, target, who.grantOf(), func(g *v1alpha1.SourceGrant) error {
			if !slices.Equal(g.Status.Used, []string{want}) {
				return fmt.Errorf("used namespaces are %q, want %q", g.Status.Used, want)
			}
			return nil
		})
	}
}

// TestNamespacesWithPodChaperonsAndWithoutRightsArePublished has a namespace that is being deleted. Its RoleBindings
// go, and nobody makes them again.
func TestNamespacesWithPodChaperonsAndWithoutRightsArePublished(t *testing.T) {
	run(t, false, nil)
	namespace := namespaceWithPod(t, team("withheld"))
	c1 := newIdentity(t)
	c1.connect(t, selecting(team("withheld")))
	c1.expect(t, namespace, all)
	c1.waitWithheld(t)
	chaperon := c1.chaperon(namespace, "web")
	env.Must(t, c1.client.Create(t.Context(), chaperon))
	env.Change(t, target, chaperon, func(c *v1alpha1.PodChaperon) { c.Finalizers = []string{"example.org/held"} })

	env.Must(t, target.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: env.Meta("", namespace)}))
	env.Must(t, target.Client.DeleteAllOf(t.Context(), &rbacv1.RoleBinding{}, client.InNamespace(namespace)))
	c1.waitWithheld(t, namespace)

	env.Delete(t, target, chaperon)
	env.Change(t, target, chaperon, func(c *v1alpha1.PodChaperon) { c.Finalizers = nil })
	env.WaitGone(t, target, chaperon)
	c1.waitWithheld(t)
}

// waitWithheld waits until the SourceGrant of the identity says that these namespaces are withheld, and no others.
func (i identity) waitWithheld(t *testing.T, want ...string) {
	t.Helper()
	env.WaitFor(t, target, i.grantOf(), func(g *v1alpha1.SourceGrant) error {
		if g.Status.Withheld == nil || !slices.Equal(g.Status.Withheld.Namespaces, want) {
			return fmt.Errorf("withheld namespaces are %+v, want %q", g.Status.Withheld, want)
		}
		return nil
	})
}

// service returns the copy of a Service as the identity makes it.
func (i identity) service(namespace, name string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: env.Meta(namespace, name)}
	s.Labels = map[string]string{v1alpha1.LabelParentClusterID: "id-of-" + i.name}
	s.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: i.user}
	s.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	return s
}

// waitCopied waits until the SourceGrant of the identity names these namespaces.
func (i identity) waitCopied(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	env.WaitFor(t, target, i.grantOf(), func(g *v1alpha1.SourceGrant) error {
		if !slices.Equal(g.Status.Copied, want) {
			return fmt.Errorf("namespaces with copies are %q, want %q", g.Status.Copied, want)
		}
		return nil
	})
}

func TestNamespacesWithCopiesThatASourceMayReadArePublished(t *testing.T) {
	stop := run(t, false, nil)
	ns := func() string { return namespaceWithPod(t, team("copies")) }
	first, second, configured, others := ns(), ns(), ns(), ns()
	c1, c2 := newIdentity(t), newIdentity(t)
	c1.connect(t, selecting(team("copies")))
	c2.connect(t, selecting(team("copies")))
	c1.expect(t, first, all)
	c2.expect(t, others, all)
	env.Must(t, c1.client.Create(t.Context(), c1.copied(configured, "config"))) // A source never reads ConfigMaps.
	web := c1.service(first, "web")
	env.Must(t, c1.client.Create(t.Context(), web))
	env.Must(t, c2.client.Create(t.Context(), c2.service(others, "web")))
	c1.waitCopied(t, first)
	c2.waitCopied(t, others)

	stop()
	env.Delete(t, target, web)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: env.Meta(second, "data")}
	claim.Labels, claim.Annotations = web.Labels, web.Annotations
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	env.Must(t, c1.client.Create(t.Context(), claim))
	run(t, false, nil)
	c1.waitCopied(t, second)
}

// readsEverywhereUntilItIsUpgraded shows that a source of an earlier version can go on, and that its right
// does not come back.
func readsEverywhereUntilItIsUpgraded(t *testing.T, c1 identity, object *v1alpha1.ClusterSource) {
	t.Helper()
	everywhere := func(allowed bool) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, list := range []client.ObjectList{
				&v1alpha1.PodChaperonList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{},
				&discoveryv1.EndpointSliceList{}, &networkingv1.IngressList{},
			} {
				if err := c1.client.List(ctx, list); apierrors.IsForbidden(err) == allowed {
					return fmt.Errorf("reading %T everywhere is allowed: %t: %w", list, !allowed, err)
				}
			}
			return nil
		}
	}
	env.Eventually(t, everywhere(true))
	lease := &coordinationv1.Lease{ObjectMeta: env.Meta(env.LeasesNamespace, translate.SourceGrantName(c1.user))}
	env.WaitFor(t, target, lease, func(*coordinationv1.Lease) error { return nil }) // The manager makes it.
	env.Change(t, target, lease, func(l *coordinationv1.Lease) {
		l.Annotations = map[string]string{v1alpha1.AnnotationReadsByNamespace: ""}
	})
	env.Change(t, target, c1.grantOf(), func(g *v1alpha1.SourceGrant) { g.Annotations = map[string]string{"look": ""} })
	env.Eventually(t, everywhere(false))
	env.Change(t, target, lease, func(l *coordinationv1.Lease) { l.Annotations = nil })
	env.Change(t, target, object, func(s *v1alpha1.ClusterSource) { s.Spec.ClusterID = "another" })
	waitCondition(t, object, v1alpha1.ConditionReady, v1alpha1.ReasonReady, "")
	env.Must(t, everywhere(false)(t.Context()))
}
