package connect

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// connection is one run of the command.
type connection struct {
	options options
	streams genericiooptions.IOStreams
	source  *cluster.Cluster
	target  *cluster.Cluster // nil with --self
	link    cluster.Connection
	// clusterID is the target's own, as its manager publishes it. It is empty if it is not known, and with --self.
	clusterID string
}

func run(ctx context.Context, o options, kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) error {
	c, err := open(o, kubeconfig, streams)
	if err != nil {
		return err
	}
	if err := c.source.CheckInstalled(ctx); err != nil {
		return err
	}
	if o.self {
		return c.engage(ctx)
	}
	for _, check := range []func(context.Context) error{c.target.CheckInstalled, c.checkNamespace, c.checkCluster} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	if c.link.SourceID, err = c.source.ID(ctx); err != nil {
		return err
	}
	account, err := c.grant(ctx)
	if err != nil {
		return err
	}
	token, err := c.issueToken(ctx, account)
	if err != nil {
		return err
	}
	if err := c.writeSecret(ctx, token); err != nil {
		return err
	}
	if err := c.engage(ctx); err != nil {
		return err
	}
	return c.conclude(ctx, account, token)
}

func open(o options, kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) (*connection, error) {
	source, err := kubeconfig.Open(o.sourceContext, flagSource)
	if err != nil {
		return nil, err
	}
	c := &connection{options: o, streams: streams, source: source}
	if !o.self {
		if c.target, err = kubeconfig.Open(o.targetContext, flagTarget); err != nil {
			return nil, err
		}
	}
	c.options.setDefaults(source)
	c.link.Target = cluster.Name(c.desiredTarget())
	return c, nil
}

// setDefaults sets the defaults that depend on the source's context.
func (o *options) setDefaults(source *cluster.Cluster) {
	o.releaseNamespace = o.secretNamespace
	if o.namespaced {
		o.namespace = cmp.Or(o.namespace, source.Namespace)
		o.secretNamespace, o.serviceAccountNamespace = o.namespace, o.namespace
	}
	o.sourceName = cmp.Or(o.sourceName, cluster.NameFrom(source.Context))
}

// say prints a line of progress.
func (c *connection) say(in *cluster.Cluster, format string, args ...any) {
	in.Say(c.streams.Out, format, args...)
}

// showCondition returns a function that prints the changes of a condition of the object during a wait.
func (c *connection) showCondition(in *cluster.Cluster, object string) func(metav1.Condition) {
	return func(condition metav1.Condition) {
		if condition.Status == metav1.ConditionTrue || condition.Reason == v1alpha1.ReasonNotConnected {
			return // Another line says the same.
		}
		c.say(in, "%s: %s: %s", object, condition.Reason, condition.Message)
	}
}
