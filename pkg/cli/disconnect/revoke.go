package disconnect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// labelByManager marks the objects that the target's manager created for sources.
const labelByManager = v1alpha1.GroupName + "/source"

// revokeAll takes everything from the source that it has in the target. The (Cluster)Source goes first, so that the
// target's manager does not give the rights again. It deletes as much as it can, and joins the errors.
func (d *disconnection) revokeAll(ctx context.Context, target *cluster.Cluster) error {
	source, account, err := d.source(ctx, target)
	if err != nil {
		return err
	}
	if source.GetUID() == "" && d.options.name != "" {
		d.say(target, "there is no %s, so nothing was revoked; if it has another name, set --source-name",
			target.Describe(source))
		return nil
	}
	if source.GetUID() == "" {
		return fmt.Errorf("there is no %s in context %q: nothing was revoked; kubectl get clustersources,sources -A "+
			"lists the sources, and --source-name names one", target.Describe(source), target.Context)
	}
	connections, err := d.connections(ctx, target, account)
	if err != nil {
		return err
	}
	problems := []error{d.delete(ctx, target, source)}
	for _, object := range connections {
		problems = append(problems, d.deleteWithRole(ctx, target, object))
	}
	problems = append(problems,
		d.deleteBindings(ctx, target, source, account), d.deleteAccount(ctx, target, account))
	if err := errors.Join(problems...); err != nil {
		return err
	}
	d.say(target, "revoked; API servers know of it within 10 seconds. Delegates run on: to end them, %s",
		endDelegates(target, source))
	return nil
}

// endDelegates says how to end the delegates of a source that is gone. What its labels say is sure only if it could not
// choose them.
func endDelegates(target *cluster.Cluster, source client.Object) string {
	where, id := "--all-namespaces", ""
	switch s := source.(type) {
	case *v1alpha1.Source:
		where, id = "--namespace "+s.Namespace, s.Spec.ClusterID
	case *v1alpha1.ClusterSource:
		id = s.Spec.ClusterID
	}
	if id == "" {
		return fmt.Sprintf("delete their PodChaperons. The source had no spec.clusterID and could write any label, so "+
			"look at all of them: kubectl --context %s get podchaperons %s", target.Context, where)
	}
	return fmt.Sprintf("run: kubectl --context %s delete podchaperons %s -l %s=%s",
		target.Context, where, v1alpha1.LabelParentClusterID, id)
}

// deleteBindings deletes the bindings that the target's manager made for the source, until there are none: the manager
// may make some again before it sees that the source is gone.
func (d *disconnection) deleteBindings(
	ctx context.Context, target *cluster.Cluster, source client.Object, account types.NamespacedName,
) error {
	for first := true; ; first = false {
		bindings, err := bindingsOf(ctx, target, source, account)
		if err != nil {
			return err
		}
		deleted := false
		for _, object := range bindings {
			if given(object, source) {
				if err := d.delete(ctx, target, object); err != nil {
					return err
				}
				deleted = true
			} else if first {
				d.say(
					target,
					"%s kept: %s. To take these rights, too, delete it",
					target.Describe(object),
					whose(object),
				)
			}
		}
		if !deleted {
			return nil
		}
	}
}

// bindingsOf returns the bindings of the source's users, in all namespaces, and those that belong to the source.
func bindingsOf(
	ctx context.Context, target *cluster.Cluster, source client.Object, account types.NamespacedName,
) ([]client.Object, error) {
	user := userOf(source)
	concerns := func(object client.Object, subjects []rbacv1.Subject) bool {
		return isOwnedBy(object, source) || slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.UserKind && user != "" && s.Name == user ||
				s.Kind == rbacv1.ServiceAccountKind && account.Name != "" &&
					s.Namespace == account.Namespace && s.Name == account.Name
		})
	}
	roleBindings, clusterRoleBindings := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	if err := target.Client.List(ctx, roleBindings); err != nil {
		return nil, fmt.Errorf("listing RoleBindings in context %q: %w", target.Context, err)
	}
	if err := target.Client.List(ctx, clusterRoleBindings); err != nil {
		return nil, fmt.Errorf("listing ClusterRoleBindings in context %q: %w", target.Context, err)
	}
	var found []client.Object
	for i := range roleBindings.Items {
		if b := &roleBindings.Items[i]; concerns(b, b.Subjects) && !cluster.CreatedByCommand(b) {
			found = append(found, b)
		}
	}
	for i := range clusterRoleBindings.Items {
		if b := &clusterRoleBindings.Items[i]; concerns(b, b.Subjects) {
			found = append(found, b)
		}
	}
	return found, nil
}

func userOf(source client.Object) string {
	switch s := source.(type) {
	case *v1alpha1.Source:
		return s.Spec.UserName
	case *v1alpha1.ClusterSource:
		return s.Spec.UserName
	default:
		return ""
	}
}

// given says whether the target's manager made a binding for this source, or for its user to read the SourceGrant. A
// binding that it made for another source of the same user goes with that one.
func given(object, source client.Object) bool {
	if !byManager(object) {
		return false
	}
	owners := object.GetOwnerReferences()
	return len(owners) == 0 || owners[0].Kind == "SourceGrant" || isOwnedBy(object, source)
}

// whose says to whom a binding belongs that is kept.
func whose(object client.Object) string {
	if owners := object.GetOwnerReferences(); byManager(object) && len(owners) > 0 {
		return fmt.Sprintf("it belongs to %s %s, which has the same user", owners[0].Kind, owners[0].Name)
	}
	return "somebody made it by hand"
}

func byManager(object client.Object) bool {
	_, ok := object.GetLabels()[labelByManager]
	return ok
}

func isOwnedBy(object, owner client.Object) bool {
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner.GetUID() {
			return true
		}
	}
	return false
}

// deleteAccount deletes the source's service account, and with it all its tokens, if the target's manager created it.
func (d *disconnection) deleteAccount(
	ctx context.Context, target *cluster.Cluster, key types.NamespacedName,
) error {
	if key.Name == "" {
		d.say(target, "the source has no service account: its certificates are valid until they expire, without rights")
		return nil
	}
	account := &corev1.ServiceAccount{}
	err := target.Client.Get(ctx, key, account)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("getting service account %s in context %q: %w", key, target.Context, err)
	}
	if !byManager(account) {
		d.say(target, "service account %s kept: somebody made it by hand. Its tokens are valid, without these rights; "+
			"delete it to end them", key)
		return nil
	}
	return d.delete(ctx, target, account)
}
