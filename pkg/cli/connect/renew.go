package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// reportTimeout is the time in which a manager reports when a token expires.
const reportTimeout = 15 * time.Second

// renew writes a new token into the kubeconfig of a target that exists.
func renew(ctx context.Context, o options, kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) error {
	c, err := open(o, kubeconfig, streams)
	if err != nil {
		return err
	}
	if err := errors.Join(c.source.CheckInstalled(ctx), c.target.CheckInstalled(ctx)); err != nil {
		return err
	}
	if c.link.SourceID, err = c.source.ID(ctx); err != nil {
		return err
	}
	reference, err := c.secretOfTarget(ctx)
	if err != nil {
		return err
	}
	_, account, source, err := c.desiredSource(ctx)
	if err != nil {
		return err
	}
	if source.GetUID() == "" {
		return fmt.Errorf("there is no %s in context %q: if it has another name, set --source-name; "+
			"if there is none, run this without --renew", c.target.Describe(source), c.target.Context)
	}
	if err := c.allowRenewal(ctx, account, source); err != nil {
		return err
	}
	token, err := c.issueToken(ctx, account)
	if err != nil {
		return err
	}
	if err := c.replaceToken(ctx, reference, token); err != nil {
		return err
	}
	if err := c.waitReady(ctx, c.desiredTarget()); err != nil {
		return err
	}
	return c.conclude(ctx, account, token)
}

// conclude deletes the tokens that the current one replaces, and warns if no manager will renew it.
func (c *connection) conclude(ctx context.Context, account types.NamespacedName, current token) error {
	if err := c.deleteEarlierTokens(ctx, account, current); err != nil {
		return err
	}
	return c.checkRenewal(ctx)
}

// allowRenewal lets the service account make tokens for itself. Whoever runs the command gives this right, because the
// target's manager does not have it.
func (c *connection) allowRenewal(ctx context.Context, account types.NamespacedName, source client.Object) error {
	role, binding := c.link.Renewal(account, source)
	for _, object := range []client.Object{role, binding} {
		if err := c.target.Apply(ctx, object); err != nil {
			return fmt.Errorf("letting the source renew its token: %w", err)
		}
	}
	c.say(c.target, "service account %s may renew its own token", account)
	return nil
}

// secretOfTarget returns the reference to the kubeconfig of the (Cluster)Target, which must exist.
func (c *connection) secretOfTarget(ctx context.Context) (v1alpha1.ClusterKubeconfigSecret, error) {
	target := c.desiredTarget()
	if err := c.source.GetIfExists(ctx, target); err != nil {
		return v1alpha1.ClusterKubeconfigSecret{}, err
	}
	description := c.source.Describe(target)
	if target.GetUID() == "" {
		return v1alpha1.ClusterKubeconfigSecret{}, fmt.Errorf(
			"there is no %s in context %q: run this without --renew", description, c.source.Context)
	}
	reference := targetkind.Spec(target).KubeconfigSecret
	if reference == nil {
		return v1alpha1.ClusterKubeconfigSecret{}, fmt.Errorf(
			"%s in context %q is the cluster itself, and needs no token", description, c.source.Context)
	}
	return *reference, nil
}

// replaceToken replaces the token in a kubeconfig, and nothing else.
func (c *connection) replaceToken(
	ctx context.Context, reference v1alpha1.ClusterKubeconfigSecret, t token,
) error {
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = reference.Namespace, reference.Name
	if err := c.source.GetIfExists(ctx, secret); err != nil {
		return err
	}
	key := cmp.Or(reference.Key, secretKey)
	raw, err := withToken(secret.Data[key], reference.Context, t.value)
	if err != nil {
		return fmt.Errorf("the kubeconfig in Secret %s of context %q, key %s: %w; run this without --renew",
			cluster.Name(secret), c.source.Context, key, err)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string][]byte{key: raw}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	if err := c.source.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(cluster.FieldOwner)); err != nil {
		return fmt.Errorf("changing Secret %s in context %q: %w", cluster.Name(secret), c.source.Context, err)
	}
	c.say(c.source, "Secret %s has the new token", cluster.Name(secret))
	return nil
}

// withToken returns a kubeconfig with another token for the user of the context.
func withToken(kubeconfig []byte, contextName, token string) ([]byte, error) {
	if len(kubeconfig) == 0 {
		return nil, errors.New("it does not exist")
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, errors.New("it cannot be read") // The parser's error may quote a secret.
	}
	user := userOf(config, cmp.Or(contextName, config.CurrentContext))
	if user == nil || user.Token == "" {
		return nil, errors.New("its user has no token")
	}
	user.Token = token
	return clientcmd.Write(*config)
}

// userOf returns the user of a context, or nil.
func userOf(config *clientcmdapi.Config, contextName string) *clientcmdapi.AuthInfo {
	context, ok := config.Contexts[contextName]
	if !ok {
		return nil
	}
	return config.AuthInfos[context.AuthInfo]
}

// checkRenewal warns if the source's manager does not say when the token expires: a manager of an earlier version does
// not renew it.
func (c *connection) checkRenewal(ctx context.Context) error {
	if c.options.tokenDuration == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	target := c.desiredTarget()
	seen, err := cluster.Wait(ctx, c.source, target, func(t client.Object) bool {
		return targetkind.Status(t).Credentials != nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintf(c.streams.ErrOut, "warning: the manager of context %q does not say when the token expires, so it "+
			"may not renew it: the connection may end in %s. Upgrade the chart there, with its custom resource "+
			"definitions, or use --token-duration 0 for a token without end\n",
			c.source.Context, c.options.tokenDuration)
		return nil
	}
	if err != nil {
		return err
	}
	if problem := targetkind.Status(seen).Credentials.Problem; problem != "" {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", problem)
	}
	return nil
}
