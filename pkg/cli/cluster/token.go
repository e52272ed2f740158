package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// annotationTarget names the target of a token, because siblings of one source share a cluster.
const annotationTarget = v1alpha1.GroupName + "/token-for-target"

// Connection identifies the tokens of one connection in a target cluster. Other sources may have the same names.
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

// Owns says whether the token Secret belongs to this connection.
func (n Connection) Owns(token *corev1.Secret) bool {
	return token.Labels[v1alpha1.LabelParentClusterID] == string(n.SourceID) &&
		token.Annotations[annotationTarget] == n.Target
}
