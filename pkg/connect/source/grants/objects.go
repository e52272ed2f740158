package grants

import (
	"context"
	"fmt"
	"maps"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// LabelSource marks the objects that the manager creates for sources. Its value is empty.
const LabelSource = v1alpha1.GroupName + "/source"

// CreatedHere selects the objects that the manager created for sources.
func CreatedHere() labels.Selector {
	requirement, err := labels.NewRequirement(LabelSource, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // This never happens: a test checks the key, which is constant.
	}
	return labels.NewSelector().Add(*requirement)
}

// Objects creates, changes and deletes roles and bindings. It touches only those with LabelSource.
type Objects struct {
	// Client reads from a cache that has only objects with LabelSource.
	Client client.Client
	// APIReader looks whose an object is that the cache does not have.
	APIReader client.Reader
}

// Ensure makes a role or binding exist as wanted, with LabelSource, and says whether a write was needed. The API server
// is not asked if the cache has the object as wanted.
func (o Objects) Ensure(ctx context.Context, wanted client.Object) (changed bool, err error) {
	mark(wanted)
	current := emptyLike(wanted)
	err = o.Client.Get(ctx, client.ObjectKeyFromObject(wanted), current)
	if apierrors.IsNotFound(err) {
		return true, o.create(ctx, wanted)
	}
	if err != nil {
		return false, fmt.Errorf("getting %s: %w", describe(wanted), err)
	}
	if roleOf(current) != roleOf(wanted) { // It cannot change.
		if err := o.Delete(ctx, current); err != nil {
			return true, err
		}
		return true, o.create(ctx, wanted)
	}
	before, _ := current.DeepCopyObject().(client.Object)
	assume(current, wanted)
	if equality.Semantic.DeepEqual(before, current) {
		return false, nil
	}
	err = o.Client.Patch(ctx, current, client.MergeFrom(before), client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil {
		return true, fmt.Errorf("changing %s: %w", describe(wanted), err)
	}
	return true, nil
}

// create accepts an object that exists already if it is ours: the cache then learns of it soon.
func (o Objects) create(ctx context.Context, wanted client.Object) error {
	err := o.Client.Create(ctx, wanted, client.FieldOwner(v1alpha1.FieldOwner))
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("creating %s: %w", describe(wanted), err)
		}
		return nil
	}
	existing := emptyLike(wanted)
	if err := o.APIReader.Get(ctx, client.ObjectKeyFromObject(wanted), existing); err != nil {
		return fmt.Errorf("getting %s: %w", describe(wanted), err)
	}
	if _, ours := existing.GetLabels()[LabelSource]; !ours {
		return fmt.Errorf("%s exists, and the manager did not create it (it has no label %s): delete or rename it",
			describe(wanted), LabelSource)
	}
	return nil
}

// Delete deletes a role or binding if it is in the cache, which has only those with LabelSource.
func (o Objects) Delete(ctx context.Context, object client.Object) error {
	current := emptyLike(object)
	if err := o.Client.Get(ctx, client.ObjectKeyFromObject(object), current); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, ours := current.GetLabels()[LabelSource]; !ours {
		return nil
	}
	uid := current.GetUID()
	err := o.Client.Delete(ctx, current, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s: %w", describe(object), err)
	}
	return nil
}

func mark(object client.Object) {
	marked := map[string]string{LabelSource: ""}
	maps.Copy(marked, object.GetLabels())
	object.SetLabels(marked)
}

// assume gives an object the wanted labels, owners, subjects and rules.
func assume(object, wanted client.Object) {
	all := maps.Clone(object.GetLabels())
	maps.Copy(all, wanted.GetLabels())
	object.SetLabels(all)
	object.SetOwnerReferences(wanted.GetOwnerReferences())
	switch w := wanted.(type) {
	case *rbacv1.RoleBinding:
		object.(*rbacv1.RoleBinding).Subjects = w.Subjects //nolint:forcetypeassert // emptyLike made it
	case *rbacv1.ClusterRoleBinding:
		object.(*rbacv1.ClusterRoleBinding).Subjects = w.Subjects //nolint:forcetypeassert // emptyLike made it
	case *rbacv1.Role:
		object.(*rbacv1.Role).Rules = w.Rules //nolint:forcetypeassert // emptyLike made it
	case *rbacv1.ClusterRole:
		object.(*rbacv1.ClusterRole).Rules = w.Rules //nolint:forcetypeassert // emptyLike made it
	}
}

// roleOf returns the role of a binding.
func roleOf(object client.Object) rbacv1.RoleRef {
	switch o := object.(type) {
	case *rbacv1.RoleBinding:
		return o.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return o.RoleRef
	default:
		return rbacv1.RoleRef{}
	}
}

func emptyLike(object client.Object) client.Object {
	switch object.(type) {
	case *rbacv1.RoleBinding:
		return &rbacv1.RoleBinding{}
	case *rbacv1.ClusterRoleBinding:
		return &rbacv1.ClusterRoleBinding{}
	case *rbacv1.Role:
		return &rbacv1.Role{}
	default:
		return &rbacv1.ClusterRole{}
	}
}

func describe(object client.Object) string {
	kind := "ClusterRole"
	switch object.(type) {
	case *rbacv1.RoleBinding:
		kind = "RoleBinding"
	case *rbacv1.ClusterRoleBinding:
		kind = "ClusterRoleBinding"
	case *rbacv1.Role:
		kind = "Role"
	}
	return fmt.Sprintf("%s %q", kind, client.ObjectKeyFromObject(object))
}

// BindingTo returns a RoleBinding or, without a namespace, a ClusterRoleBinding, for Objects. The kind of the role is
// Role or ClusterRole.
func BindingTo(kind, role string, meta metav1.ObjectMeta, subjects []rbacv1.Subject) client.Object {
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}
	if meta.Namespace != "" {
		return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
}

// RoleWith returns a Role or, without a namespace, a ClusterRole, for Objects.
func RoleWith(meta metav1.ObjectMeta, rules []rbacv1.PolicyRule) client.Object {
	if meta.Namespace != "" {
		return &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	}
	return &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
}
