package connect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// secretKey is the default key of kubeconfig Secrets.
const secretKey = "config"

// checkNamespace says that the Secret has nowhere to go, before anything is made in the target.
func (c *connection) checkNamespace(ctx context.Context) error {
	err := c.source.Client.Get(ctx, client.ObjectKey{Name: c.secretNamespace}, &corev1.Namespace{})
	switch {
	case apierrors.IsNotFound(err) && c.namespaced:
		return fmt.Errorf("context %q has no namespace %q", c.source.Context, c.namespace)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("context %q has no namespace %q; if the chart is in another, name it with --secret-namespace", c.source.Context, c.secretNamespace)
	case err != nil:
		return fmt.Errorf("getting namespace %q in context %q: %w", c.secretNamespace, c.source.Context, err)
	}
	return nil
}

// writeSecret writes the Secret with the kubeconfig that the source's manager uses.
func (c *connection) writeSecret(ctx context.Context, t token) error {
	if hint := serverHint(c.address(), c.targetContext); hint != "" {
		c.warn("%s", hint)
	}
	kubeconfig, err := kubeconfigFor(c.target.Config, c.server, t)
	if err != nil {
		return err
	}
	existing := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.secretNamespace, Name: c.name}}
	if err := c.read(ctx, c.source, existing); err != nil {
		return err
	}
	if existing.UID != "" && !cluster.MadeByCommand(existing) {
		return fmt.Errorf("the Secret %s of context %q was not made by this command and is left alone: delete it, or choose another NAME",
			cluster.Name(existing), c.source.Context)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.secretNamespace,
			Name:      c.name,
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

// address is where the source's manager will look for the target.
func (c *connection) address() string {
	if c.server != "" {
		return c.server
	}
	return c.target.Config.Host
}

// engage applies the (Cluster)Target and waits until its virtual node takes pods.
func (c *connection) engage(ctx context.Context) error {
	target := c.desiredTarget()
	if err := c.source.Apply(ctx, target); err != nil {
		return err
	}
	what := c.source.Describe(target)
	c.say(c.source, "%s applied, waiting for the connection", what)
	for _, conditionType := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionReady} {
		seen, err := cluster.WaitForCondition(ctx, c.source, target, conditionType, c.show(c.source, what))
		if err != nil {
			return err
		}
		if conditionType == v1alpha1.ConditionConnected {
			c.say(c.source, "%s is connected, waiting for its virtual node", what)
			continue
		}
		c.say(c.source, "virtual node %s is ready", nodeName(seen))
	}
	c.nextSteps()
	return nil
}

func (c *connection) desiredTarget() client.Object {
	var reference *v1alpha1.KubeconfigSecret
	if !c.self {
		reference = &v1alpha1.KubeconfigSecret{Name: c.name, Key: secretKey}
	}
	if c.namespaced {
		return &v1alpha1.Target{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name},
			Spec:       v1alpha1.TargetSpec{Self: c.self, KubeconfigSecret: reference},
		}
	}
	target := &v1alpha1.ClusterTarget{
		ObjectMeta: metav1.ObjectMeta{Name: c.name},
		Spec:       v1alpha1.ClusterTargetSpec{Self: c.self},
	}
	if reference != nil {
		target.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{Namespace: c.secretNamespace, KubeconfigSecret: *reference}
	}
	return target
}

func nodeName(target client.Object) string {
	switch t := target.(type) {
	case *v1alpha1.Target:
		return t.Status.NodeName
	case *v1alpha1.ClusterTarget:
		return t.Status.NodeName
	default:
		return ""
	}
}

func (c *connection) nextSteps() {
	namespace := c.namespace
	if namespace == "" {
		namespace = "default"
	}
	fmt.Fprintf(c.streams.Out, `
Elect pods by the annotation multicluster.admiralty.io/elect: "" of their template, in namespaces that are enabled:
  kubectl --context %s label namespace %s multicluster-scheduler=enabled
See how the targets are:
  kubectl multicluster status --context %s
`, c.source.Context, namespace, c.source.Context)
}
