package connect

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// token is what logs in as a service account of the target.
type token struct {
	value string
	// ca is the authority of the target's API server as pods there see it.
	ca []byte
	// secret is the name of the Secret that holds it, empty for one of the TokenRequest API.
	secret string
}

// grant makes the (Cluster)Source and waits until its service account has its rights.
func (c *connection) grant(ctx context.Context) (types.NamespacedName, error) {
	source, account, err := c.desiredSource(ctx)
	if err != nil {
		return account, err
	}
	if err := c.target.Apply(ctx, source); err != nil {
		return account, err
	}
	what := c.target.Describe(source)
	c.say(c.target, "%s applied, waiting for its rights", what)
	if _, err := cluster.WaitForCondition(ctx, c.target, source, v1alpha1.ConditionReady, c.show(c.target, what)); err != nil {
		return account, err
	}
	c.say(c.target, "service account %s may run pods", account)
	return account, nil
}

// desiredSource is the source as it shall be. One that exists keeps its service account.
func (c *connection) desiredSource(ctx context.Context) (client.Object, types.NamespacedName, error) {
	account := types.NamespacedName{Namespace: c.serviceAccountNamespace, Name: "multicluster-source-" + c.sourceName}
	if c.namespaced {
		source := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.sourceName}}
		if err := c.read(ctx, c.target, source); err != nil {
			return nil, account, err
		}
		if source.Spec.ServiceAccountName != "" {
			account.Name = source.Spec.ServiceAccountName
		}
		return &v1alpha1.Source{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.sourceName},
			Spec:       v1alpha1.SourceSpec{ServiceAccountName: account.Name},
		}, account, nil
	}
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: c.sourceName}}
	if err := c.read(ctx, c.target, source); err != nil {
		return nil, account, err
	}
	if reference := source.Spec.ServiceAccount; reference != nil {
		account = types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	}
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: c.sourceName},
		Spec:       v1alpha1.ClusterSourceSpec{ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: account.Namespace, Name: account.Name}},
	}, account, nil
}

// read reads an object if it exists.
func (c *connection) read(ctx context.Context, from *cluster.Cluster, object client.Object) error {
	if err := from.Client.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting %s in context %q: %w", from.Describe(object), from.Context, err)
	}
	return nil
}

func (c *connection) issueToken(ctx context.Context, account types.NamespacedName) (token, error) {
	if c.tokenDuration > 0 {
		return c.requestToken(ctx, account)
	}
	secret := c.link.TokenSecret(account)
	if err := c.target.Client.Create(ctx, secret, client.FieldOwner(cluster.FieldOwner)); err != nil {
		return token{}, fmt.Errorf("creating a token of service account %s in context %q: %w", account, c.target.Context, err)
	}
	filled, err := cluster.Wait(ctx, c.target, secret, func(s *corev1.Secret) bool {
		return len(s.Data[corev1.ServiceAccountTokenKey]) > 0
	})
	if err != nil {
		return token{}, fmt.Errorf("waiting for the token of service account %s in context %q: %w", account, c.target.Context, err)
	}
	c.say(c.target, "token of service account %s made (valid until Secret %s is deleted)", account, cluster.Name(secret))
	return token{
		value:  string(filled.Data[corev1.ServiceAccountTokenKey]),
		ca:     filled.Data[corev1.ServiceAccountRootCAKey],
		secret: filled.Name,
	}, nil
}

func (c *connection) requestToken(ctx context.Context, account types.NamespacedName) (token, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(c.tokenDuration.Seconds()))},
	}
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if err := c.target.Client.SubResource("token").Create(ctx, object, request); err != nil {
		return token{}, fmt.Errorf("requesting a token of service account %s in context %q: %w", account, c.target.Context, err)
	}
	root := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: "kube-root-ca.crt"}}
	if err := c.read(ctx, c.target, root); err != nil {
		return token{}, err
	}
	c.say(c.target, "token of service account %s made (valid until %s, then run this again)",
		account, request.Status.ExpirationTimestamp.Format(time.RFC3339))
	return token{value: request.Status.Token, ca: []byte(root.Data["ca.crt"])}, nil
}

// deleteEarlierTokens deletes the tokens that earlier runs made for this connection.
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
			return fmt.Errorf("deleting the earlier token %s in context %q: %w", cluster.Name(earlier), c.target.Context, err)
		}
		c.say(c.target, "earlier token %s deleted", cluster.Name(earlier))
	}
	return nil
}
