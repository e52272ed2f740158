package node

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const providerPrefix = "admiralty://"

// providerID returns the provider's name for a virtual node. A cloud's controller deletes nodes that are not Ready and
// that the cloud does not know, and Kubernetes then deletes their pods by force. A controller that sees the name of
// another provider cannot say that the cloud does not know the node, and leaves it alone.
func providerID(key types.NamespacedName) string {
	if key.Namespace == "" {
		return providerPrefix + key.Name
	}
	return providerPrefix + key.Namespace + "/" + key.Name
}

// keyOfProvider returns the key of the target that providerID was called with. It returns false for the name of another
// provider, or for none, as nodes of earlier versions have.
func keyOfProvider(id string) (types.NamespacedName, bool) {
	path, ours := strings.CutPrefix(id, providerPrefix)
	namespace, name, namespaced := strings.Cut(path, "/")
	if !namespaced {
		namespace, name = "", path
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, ours && name != ""
}

// ensureSpec gives an existing virtual node the taints that its target's conditions ask for, and its provider's name.
// It leaves the taints of others as they are. virtual-kubelet changes no spec of a node.
func (r *Reconciler) ensureSpec(ctx context.Context, f facts) error {
	if f.existing == nil {
		return nil // Its creation is an event.
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: f.existing.Name, UID: f.existing.UID, ResourceVersion: f.existing.ResourceVersion,
	}}
	node.Spec.Taints, node.Spec.ProviderID = f.existing.Spec.Taints, f.existing.Spec.ProviderID
	before := node.DeepCopy()
	if taints := closed(f.existing.Spec.Taints, f.status); taints != nil {
		node.Spec.Taints = taints
	}
	node.Spec.ProviderID = cmp.Or(node.Spec.ProviderID, providerID(f.key)) // It cannot be changed.
	if equality.Semantic.DeepEqual(before, node) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.options.Client.Patch(ctx, node, patch, client.FieldOwner(fieldOwner))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // The cache lags, and its event follows.
	}
	if err != nil {
		return fmt.Errorf("changing the spec of node %q: %w", node.Name, err)
	}
	return nil
}
