package connect

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// secretKey is the default key of kubeconfig Secrets.
const secretKey = "config"

// checkNamespace checks the namespace of the Secret, before the command creates anything in the target.
func (c *connection) checkNamespace(ctx context.Context) error {
	err := c.source.Client.Get(ctx, client.ObjectKey{Name: c.options.secretNamespace}, &corev1.Namespace{})
	switch {
	case apierrors.IsNotFound(err) && c.options.namespaced:
		return fmt.Errorf("context %q has no namespace %q", c.source.Context, c.options.namespace)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("context %q has no namespace %q; if the chart is in another one, set --secret-namespace",
			c.source.Context, c.options.secretNamespace)
	case err != nil:
		return fmt.Errorf("getting namespace %q in context %q: %w", c.options.secretNamespace, c.source.Context, err)
	}
	return nil
}

// writeSecret writes the Secret with the kubeconfig that the source's manager uses.
func (c *connection) writeSecret(ctx context.Context, t token) error {
	if hint := serverHint(c.address(), c.options.targetContext); hint != "" {
		fmt.Fprintf(c.streams.ErrOut, "warning: %s\n", hint)
	}
	kubeconfig, err := kubeconfigFor(c.target.Config, c.options.server, t)
	if err != nil {
		return err
	}
	name := metav1.ObjectMeta{Namespace: c.options.secretNamespace, Name: c.options.name}
	existing := &corev1.Secret{ObjectMeta: name}
	if err := c.source.GetIfExists(ctx, existing); err != nil {
		return err
	}
	if existing.UID != "" && !cluster.CreatedByCommand(existing) {
		return fmt.Errorf("this command did not create the Secret %s of context %q: delete it, or choose another NAME",
			cluster.Name(existing), c.source.Context)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.options.secretNamespace,
			Name:      c.options.name,
			Labels:    map[string]string{cluster.LabelManagedBy: cluster.FieldOwner},
		},
		Data: map[string][]byte{secretKey: kubeconfig},
	}
	if err := c.source.Apply(ctx, secret); err != nil {
		return err
	}
	c.say(c.source, "Secret %s applied, with a kubeconfig for %s", cluster.Name(secret), c.address())
	return nil
}

// address is the address at which the source's manager will connect to the target.
func (c *connection) address() string {
	if c.options.server != "" {
		return c.options.server
	}
	return c.target.Config.Host
}

// engage applies the (Cluster)Target and waits until its virtual node takes pods.
func (c *connection) engage(ctx context.Context) error {
	target := c.desiredTarget()
	if err := c.source.Apply(ctx, target); err != nil {
		return err
	}
	c.say(c.source, "%s applied, waiting for the connection", c.source.Describe(target))
	if err := c.waitReady(ctx, target); err != nil {
		return err
	}
	c.nextSteps()
	return nil
}

// waitReady waits until the virtual node of the (Cluster)Target takes pods.
func (c *connection) waitReady(ctx context.Context, target client.Object) error {
	description := c.source.Describe(target)
	for _, conditionType := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionReady} {
		progress := c.showCondition(c.source, description)
		connected, err := cluster.WaitForCondition(ctx, c.source, target, conditionType, progress)
		if err != nil {
			return err
		}
		if conditionType == v1alpha1.ConditionConnected {
			c.say(c.source, "%s is connected, waiting for its virtual node", description)
			continue
		}
		c.say(c.source, "virtual node %s is ready", targetkind.Status(connected).NodeName)
	}
	return nil
}

func (c *connection) desiredTarget() client.Object {
	var reference *v1alpha1.KubeconfigSecret
	if !c.options.self {
		reference = &v1alpha1.KubeconfigSecret{Name: c.options.name, Key: secretKey}
	}
	if c.options.namespaced {
		return &v1alpha1.Target{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.options.namespace, Name: c.options.name},
			Spec:       v1alpha1.TargetSpec{Self: c.options.self, KubeconfigSecret: reference},
		}
	}
	target := &v1alpha1.ClusterTarget{
		ObjectMeta: metav1.ObjectMeta{Name: c.options.name},
		Spec:       v1alpha1.ClusterTargetSpec{Self: c.options.self},
	}
	if reference != nil {
		target.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
			Namespace: c.options.secretNamespace, KubeconfigSecret: *reference,
		}
	}
	return target
}

func (c *connection) nextSteps() {
	namespace := cmp.Or(c.options.namespace, "default")
	fmt.Fprintf(c.streams.Out, `
Elect pods by the annotation multicluster.admiralty.io/elect: "" in their template, in enabled namespaces:
  kubectl --context %s label namespace %s multicluster-scheduler=enabled
Show the status of the targets:
  kubectl multicluster status --context %s
`, c.source.Context, namespace, c.source.Context)
}
