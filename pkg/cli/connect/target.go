package connect

import (
	"context"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// token is a token of a service account of the target.
type token struct {
	value string
	// ca is the authority of the target's API server that the target gives its pods.
	ca []byte
	// secret is the name of the Secret with the token, empty for a token of the TokenRequest API.
	secret string
}

// grant applies the (Cluster)Source, and waits until its service account has the rights.
// It returns the service account.
func (c *connection) grant(ctx context.Context) (types.NamespacedName, error) {
	source, account, _, err := c.desiredSource(ctx)
	if err != nil {
		return account, err
	}
	if err := c.target.Apply(ctx, source); err != nil {
		return account, err
	}
	if err := c.setClusterID(ctx, source); err != nil {
		return account, err
	}
	description := c.target.Describe(source)
	c.say(c.target, "%s applied, waiting for its rights", description)
	progress := c.showCondition(c.target, description)
	ready, err := cluster.WaitForCondition(ctx, c.target, source, v1alpha1.ConditionReady, progress)
	if err != nil {
		return account, err
	}
	c.say(c.target, "service account %s may run pods", account)
	if err := c.warnOfOthers(ctx, account); err != nil {
		return account, err
	}
	return account, c.allowRenewal(ctx, account, ready)
}

// warnOfOthers warns if other sources may use the namespace in which a Source has its service account. Their pods could
// mount the token, if it is in a Secret.
func (c *connection) warnOfOthers(ctx context.Context, account types.NamespacedName) error {
	if !c.options.namespaced {
		return nil
	}
	grants := &v1alpha1.SourceGrantList{}
	err := c.target.Client.List(ctx, grants)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // An earlier version publishes no grants.
	}
	if err != nil {
		return fmt.Errorf("listing SourceGrants in context %q: %w", c.target.Context, err)
	}
	for i := range grants.Items {
		user := grants.Items[i].Spec.UserName
		own := serviceaccount.MatchesUsername(account.Namespace, account.Name, user)
		if !own && slices.Contains(grants.Items[i].Status.Namespaces, account.Namespace) {
			fmt.Fprintf(c.streams.ErrOut, "warning: the source with the user %s may use namespace %s of context %q, "+
				"too, and its pods can mount every Secret there: use no tokens in Secrets (--token-duration 0), or "+
				"take the namespace out of its ClusterSource's spec.namespaceSelector\n",
				user, account.Namespace, c.target.Context)
		}
	}
	return nil
}

// setClusterID writes the cluster ID that the source's manager publishes into the (Cluster)Source. It is a patch of its
// own, because an older target drops the unknown field of a patch, but refuses to apply it.
func (c *connection) setClusterID(ctx context.Context, source client.Object) error {
	summary := &v1alpha1.ClusterSummary{}
	err := c.source.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterSummaryName}, summary)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || err == nil && summary.Status.ClusterID == "" {
		return nil // Without an ID, the source may use any.
	}
	if err != nil {
		return fmt.Errorf("getting the ClusterSummary in context %q: %w", c.source.Context, err)
	}
	patch := fmt.Appendf(nil, `{"spec":{"clusterID":%q}}`, summary.Status.ClusterID)
	err = c.target.Client.Patch(
		ctx,
		source,
		client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(cluster.FieldOwner),
	)
	if err != nil {
		return fmt.Errorf("setting spec.clusterID of %s: %w", c.target.Describe(source), err)
	}
	return nil
}

// desiredSource returns the source to apply, its service account, and the source as it is: without a UID if it does not
// exist. An existing source keeps its service account.
func (c *connection) desiredSource(
	ctx context.Context,
) (desired client.Object, account types.NamespacedName, existing client.Object, err error) {
	o := &c.options
	account = types.NamespacedName{Namespace: o.serviceAccountNamespace, Name: "multicluster-source-" + o.sourceName}
	if o.namespaced {
		source := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.sourceName}}
		if err := c.target.GetIfExists(ctx, source); err != nil {
			return nil, account, nil, err
		}
		if source.Spec.ServiceAccountName != "" {
			account.Name = source.Spec.ServiceAccountName
		}
		return &v1alpha1.Source{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.sourceName},
			Spec:       v1alpha1.SourceSpec{ServiceAccountName: account.Name},
		}, account, source, nil
	}
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: o.sourceName}}
	if err := c.target.GetIfExists(ctx, source); err != nil {
		return nil, account, nil, err
	}
	if reference := source.Spec.ServiceAccount; reference != nil {
		account = types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	}
	reference := &v1alpha1.ServiceAccountReference{Namespace: account.Namespace, Name: account.Name}
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: o.sourceName},
		Spec:       v1alpha1.ClusterSourceSpec{ServiceAccount: reference},
	}, account, source, nil
}

// issueToken creates a new token for this connection.
func (c *connection) issueToken(ctx context.Context, account types.NamespacedName) (token, error) {
	if c.options.tokenDuration > 0 {
		return c.requestToken(ctx, account)
	}
	secret := c.link.TokenSecret(account)
	if err := c.target.Client.Create(ctx, secret, client.FieldOwner(cluster.FieldOwner)); err != nil {
		return token{}, fmt.Errorf("creating a token of service account %s in context %q: %w",
			account, c.target.Context, err)
	}
	filled, err := cluster.Wait(ctx, c.target, secret, func(s *corev1.Secret) bool {
		return len(s.Data[corev1.ServiceAccountTokenKey]) > 0
	})
	if err != nil {
		return token{}, fmt.Errorf("waiting for the token of service account %s in context %q: %w",
			account, c.target.Context, err)
	}
	c.say(c.target, "token of service account %s created (valid until Secret %s is deleted)",
		account, cluster.Name(secret))
	return token{
		value:  string(filled.Data[corev1.ServiceAccountTokenKey]),
		ca:     filled.Data[corev1.ServiceAccountRootCAKey],
		secret: filled.Name,
	}, nil
}

func (c *connection) requestToken(ctx context.Context, account types.NamespacedName) (token, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(c.options.tokenDuration.Seconds()))},
	}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if err := c.target.Client.SubResource("token").Create(ctx, object, request); err != nil {
		return token{}, fmt.Errorf("requesting a token of service account %s in context %q: %w",
			account, c.target.Context, err)
	}
	root := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: "kube-root-ca.crt"}}
	if err := c.target.GetIfExists(ctx, root); err != nil {
		return token{}, err
	}
	c.say(c.target, "token of service account %s created (valid until %s; the source's manager renews it)",
		account, request.Status.ExpirationTimestamp.Format(time.RFC3339))
	return token{value: request.Status.Token, ca: []byte(root.Data["ca.crt"])}, nil
}

// deleteEarlierTokens deletes the tokens that earlier runs created for this connection.
func (c *connection) deleteEarlierTokens(ctx context.Context, account types.NamespacedName, current token) error {
	tokens, err := c.target.Tokens(ctx, account)
	if err != nil {
		return err
	}
	for i := range tokens {
		earlier := &tokens[i]
		if !c.link.Owns(earlier) || earlier.Name == current.secret {
			continue
		}
		if err := c.target.Client.Delete(ctx, earlier); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the earlier token %s in context %q: %w",
				cluster.Name(earlier), c.target.Context, err)
		}
		c.say(c.target, "earlier token %s deleted", cluster.Name(earlier))
	}
	return nil
}
