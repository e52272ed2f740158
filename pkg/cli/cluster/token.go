package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// annotationTarget names the target of a token, because siblings of one source share a cluster.
	annotationTarget = v1alpha1.GroupName + "/token-for-target"
	// renewalPrefix begins the names of Renewal.
	renewalPrefix = "multicluster-source-token:"
)

// Connection identifies what one connection has in a target cluster. Other sources may have the same names.
type Connection struct {
	// SourceID is the UID of the source's namespace kube-system.
	SourceID types.UID
	// Target is the name of the (Cluster)Target in the source, as Name returns it.
	Target string
}

// ID returns the UID of the cluster's namespace kube-system.
func (c *Cluster) ID(ctx context.Context) (types.UID, error) {
	namespace := &corev1.Namespace{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("asking the cluster of context %q: %w", c.Context, err)
	}
	return namespace.UID, nil
}

// TokenSecret returns a Secret to create, into which Kubernetes writes a token of the service account.
func (n Connection) TokenSecret(account types.NamespacedName) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    account.Namespace,
			GenerateName: account.Name + "-token-",
			Labels: map[string]string{
				LabelManagedBy: FieldOwner, v1alpha1.LabelParentClusterID: string(n.SourceID),
			},
			Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name, annotationTarget: n.Target},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
}

// Renewal returns the Role and the RoleBinding that let a service account make tokens for itself, and for nobody else.
// They belong to the source, and go with it. The RoleBinding also shows that the connection exists: a token that
// expires leaves no object in the target.
func (n Connection) Renewal(account types.NamespacedName, source client.Object) (*rbacv1.Role, *rbacv1.RoleBinding) {
	kind := "ClusterSource"
	if source.GetNamespace() != "" {
		kind = "Source"
	}
	sum := sha256.Sum256([]byte(string(n.SourceID) + "/" + n.Target))
	meta := metav1.ObjectMeta{
		Namespace:   account.Namespace,
		Name:        fmt.Sprintf("%s%s:%x", renewalPrefix, account.Name, sum[:5]),
		Labels:      map[string]string{LabelManagedBy: FieldOwner, v1alpha1.LabelParentClusterID: string(n.SourceID)},
		Annotations: map[string]string{annotationTarget: n.Target},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: kind, Name: source.GetName(), UID: source.GetUID(),
		}},
	}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups:     []string{corev1.GroupName},
		Resources:     []string{"serviceaccounts/token"},
		ResourceNames: []string{account.Name},
		Verbs:         []string{"create"},
	}}}
	return role, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name},
		},
	}
}

// Renewals returns the RoleBindings that commands created with Renewal for the service account.
func (c *Cluster) Renewals(ctx context.Context, account types.NamespacedName) ([]rbacv1.RoleBinding, error) {
	all := &rbacv1.RoleBindingList{}
	err := c.Client.List(ctx, all,
		client.InNamespace(account.Namespace), client.MatchingLabels{LabelManagedBy: FieldOwner})
	if err != nil {
		return nil, fmt.Errorf("listing RoleBindings in context %q: %w", c.Context, err)
	}
	var bindings []rbacv1.RoleBinding
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].Name, renewalPrefix+account.Name+":") {
			bindings = append(bindings, all.Items[i])
		}
	}
	return bindings, nil
}

// Tokens returns the token Secrets that commands created for the service account.
func (c *Cluster) Tokens(ctx context.Context, account types.NamespacedName) ([]corev1.Secret, error) {
	all := &corev1.SecretList{}
	err := c.Client.List(ctx, all,
		client.InNamespace(account.Namespace), client.MatchingLabels{LabelManagedBy: FieldOwner})
	if err != nil {
		return nil, fmt.Errorf("listing tokens in context %q: %w", c.Context, err)
	}
	var tokens []corev1.Secret
	for _, secret := range all.Items {
		if secret.Type == corev1.SecretTypeServiceAccountToken &&
			secret.Annotations[corev1.ServiceAccountNameKey] == account.Name {
			tokens = append(tokens, secret)
		}
	}
	return tokens, nil
}

// Owns says whether a token Secret or a RoleBinding of Renewal belongs to this connection.
func (n Connection) Owns(object client.Object) bool {
	return object.GetLabels()[v1alpha1.LabelParentClusterID] == string(n.SourceID) &&
		object.GetAnnotations()[annotationTarget] == n.Target
}
