package disconnect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	flagSource = "source-context"
	flagTarget = "target-context"
	timeout    = time.Minute

	examples = `  # Stop using c2 as a target; drain its virtual node first, so that pods are replaced in order
  kubectl drain admiralty-c2 --ignore-daemonsets --delete-emptydir-data
  kubectl multicluster disconnect c2

  # Also remove the source's rights in the target
  kubectl multicluster disconnect c2 --target-context c2

  # A credential of source c1 was stolen: take all its rights in c2, at once, without access to c1
  kubectl multicluster disconnect --revoke --target-context c2 --source-name c1`
)

type options struct {
	name          string
	sourceContext string
	targetContext string
	namespaced    bool
	namespace     string
	sourceName    string
	revoke        bool
}

// New returns the command `disconnect`.
func New(kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) *cobra.Command {
	o := options{}
	command := &cobra.Command{
		Use:   "disconnect NAME",
		Short: "Stop using a cluster as a target",
		Long: `Stop using a cluster as a target.

In the source, the command deletes the ClusterTarget (or Target), and its Secret if connect created it. With
--target-context, it also deletes the remaining delegates in the target, and the ClusterSource (or Source) there, unless
another target needs it. Drain the virtual node first, so that pods are replaced before they stop. If pods are left
there, or the target is not connected, the command warns of what follows, and goes on.

With --revoke, the command first takes everything from the source that it has in the target: the ClusterSource (or
Source), its bindings, roles and tokens, and the service account. Other targets of the source that use them lose their
connection, too. API servers know of it within 10 seconds. Without NAME, the command does no more than that.`,
		Example: examples,
		Args:    o.checkArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			return run(ctx, o, kubeconfig, streams)
		},
	}
	o.addFlags(command)
	for _, flag := range []string{flagSource, flagTarget} {
		if err := command.RegisterFlagCompletionFunc(flag, kubeconfig.CompleteContexts); err != nil {
			panic(err) // addFlags defines the flags.
		}
	}
	return command
}

func (o *options) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.sourceContext, flagSource, "", "context of the source cluster (default: the current context)")
	flags.StringVar(&o.targetContext, flagTarget, "",
		"context of the target cluster, to remove the source's rights there")
	flags.BoolVar(&o.namespaced, "namespaced", false, "NAME is the name of a Target")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "the Target's namespace (default: the source context's)")
	flags.StringVar(&o.sourceName, "source-name", "",
		"name of the source in the target (default: derived from the source context's name)")
	flags.BoolVar(&o.revoke, "revoke", false,
		"in the target, take everything from the source at once, even if another target needs it")
}

// checkArguments checks the argument and the flags, without a cluster.
func (o *options) checkArguments(command *cobra.Command, args []string) error {
	if o.namespace != "" && !o.namespaced {
		return errors.New("--namespace needs --namespaced; without it, NAME is the name of a ClusterTarget")
	}
	if o.revoke && o.targetContext == "" {
		return fmt.Errorf("--revoke takes rights in the target: name its context with --%s", flagTarget)
	}
	if !o.revoke || len(args) > 0 {
		if err := cluster.OneName(command, args); err != nil {
			return err
		}
		o.name = args[0]
		return nil
	}
	switch {
	case o.sourceContext != "":
		return fmt.Errorf("without NAME, --revoke acts in the target only: leave out --%s, or give a NAME", flagSource)
	case o.sourceName == "":
		return errors.New(
			"whose rights are to be revoked? Give --source-name, the name of the ClusterSource or Source; " +
				"kubectl get clustersources,sources -A lists them",
		)
	case o.namespaced && o.namespace == "":
		return errors.New("in which namespace is the Source? Give --namespace")
	}
	return nil
}

func run(ctx context.Context, o options, kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) error {
	d := &disconnection{options: o, streams: streams}
	if o.name == "" {
		target, err := kubeconfig.Open(o.targetContext, flagTarget)
		if err != nil {
			return err
		}
		return d.revokeAll(ctx, target)
	}
	source, err := kubeconfig.Open(o.sourceContext, flagSource)
	if err != nil {
		return err
	}
	if o.namespaced && o.namespace == "" {
		d.options.namespace = source.Namespace
	}
	if o.sourceName == "" {
		d.options.sourceName = cluster.NameFrom(source.Context)
	}
	// Both contexts are opened before anything is deleted, so that a mistyped context changes nothing.
	var target *cluster.Cluster
	if o.targetContext != "" {
		if target, err = kubeconfig.Open(o.targetContext, flagTarget); err != nil {
			return err
		}
	}
	return d.disconnect(ctx, source, target)
}

// disconnection is one run of the command.
type disconnection struct {
	options options
	streams genericiooptions.IOStreams
}

// disconnect undoes a connection in the source and, unless target is nil, in the target.
func (d *disconnection) disconnect(ctx context.Context, source, target *cluster.Cluster) error {
	if d.options.revoke {
		if err := d.revokeAll(ctx, target); err != nil {
			return err
		}
	}
	if err := d.deleteTarget(ctx, source); err != nil || target == nil {
		return err
	}
	id, err := source.ID(ctx)
	if err != nil {
		return err
	}
	if err := d.deleteChaperons(ctx, target, id); err != nil || d.options.revoke {
		return err
	}
	return d.revoke(ctx, target, cluster.Connection{SourceID: id, Target: cluster.Name(d.target())})
}

func (d *disconnection) target() client.Object {
	if d.options.namespaced {
		return &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: d.options.namespace, Name: d.options.name}}
	}
	return &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: d.options.name}}
}

// deleteTarget deletes the target and its Secret in the source.
func (d *disconnection) deleteTarget(ctx context.Context, source *cluster.Cluster) error {
	target := d.target()
	err := source.Client.Get(ctx, client.ObjectKeyFromObject(target), target)
	if apierrors.IsNotFound(err) {
		d.say(source, "there is no %s", source.Describe(target))
		return nil
	}
	if err != nil {
		return fmt.Errorf("getting %s in context %q: %w", source.Describe(target), source.Context, err)
	}
	d.warn(ctx, source, target)
	if err := d.delete(ctx, source, target); err != nil {
		return err
	}
	key, ok := secretOf(target)
	if !ok {
		return nil
	}
	secret := &corev1.Secret{}
	if err := source.Client.Get(ctx, key, secret); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !cluster.CreatedByCommand(secret) {
		d.say(source, "Secret %s kept: connect did not create it", key)
		return nil
	}
	return d.delete(ctx, source, secret)
}

func secretOf(target client.Object) (types.NamespacedName, bool) {
	switch t := target.(type) {
	case *v1alpha1.Target:
		if s := t.Spec.KubeconfigSecret; s != nil {
			return types.NamespacedName{Namespace: t.Namespace, Name: s.Name}, true
		}
	case *v1alpha1.ClusterTarget:
		if s := t.Spec.KubeconfigSecret; s != nil {
			return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, true
		}
	}
	return types.NamespacedName{}, false
}

// deleteChaperons deletes the source's PodChaperons in the target, with their delegates. The source's manager does the
// same when its ClusterTarget or Target is deleted. But it may not run, or may not finish before its token is deleted.
func (d *disconnection) deleteChaperons(ctx context.Context, target *cluster.Cluster, sourceID types.UID) error {
	chaperons := &v1alpha1.PodChaperonList{}
	id := translate.TargetID(client.ObjectKeyFromObject(d.target()))
	if err := target.Client.List(ctx, chaperons, client.MatchingLabels{
		v1alpha1.LabelParentClusterID: string(sourceID),
		v1alpha1.LabelTargetHash:      translate.HashOfTargetID(id),
	}); err != nil {
		return fmt.Errorf("listing PodChaperons in context %q: %w", target.Context, err)
	}
	for i := range chaperons.Items {
		chaperon := &chaperons.Items[i]
		if !chaperon.DeletionTimestamp.IsZero() || !translate.MadeFor(chaperon.Labels, id) {
			continue
		}
		foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
		if err := d.delete(ctx, target, chaperon, foreground); err != nil {
			return err
		}
	}
	return nil
}

// revoke deletes the connection's tokens in the target, its right to renew them, and the source there if no other
// connection uses the source.
func (d *disconnection) revoke(ctx context.Context, target *cluster.Cluster, connection cluster.Connection) error {
	source, account, err := d.source(ctx, target)
	if err != nil {
		return err
	}
	if source.GetUID() == "" {
		d.say(target, "there is no %s; if it has another name, set --source-name", target.Describe(source))
		return nil
	}
	objects, err := d.connections(ctx, target, account)
	if err != nil {
		return err
	}
	used := false
	for _, object := range objects {
		if !connection.Owns(object) {
			used = true
			continue
		}
		if err := d.deleteWithRole(ctx, target, object); err != nil {
			return err
		}
	}
	if used {
		d.say(
			target,
			"%s kept: another target uses it. A token of this connection that has not expired is valid until "+
				"it does, within a day; --revoke ends it now, and the other connections, too",
			target.Describe(source),
		)
		return nil
	}
	return d.delete(ctx, target, source)
}

// connections returns the objects that show the connections of a service account: token Secrets, and RoleBindings for
// renewals.
func (d *disconnection) connections(
	ctx context.Context, target *cluster.Cluster, account types.NamespacedName,
) ([]client.Object, error) {
	tokens, err := target.Tokens(ctx, account)
	if err != nil {
		return nil, err
	}
	renewals, err := target.Renewals(ctx, account)
	if err != nil {
		return nil, err
	}
	var all []client.Object
	for i := range tokens {
		all = append(all, &tokens[i])
	}
	for i := range renewals {
		all = append(all, &renewals[i])
	}
	return all, nil
}

// deleteWithRole deletes an object, and its Role if the object is a RoleBinding.
func (d *disconnection) deleteWithRole(ctx context.Context, target *cluster.Cluster, object client.Object) error {
	if binding, ok := object.(*rbacv1.RoleBinding); ok {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: binding.Namespace, Name: binding.RoleRef.Name}}
		if err := d.delete(ctx, target, role); err != nil {
			return err
		}
	}
	return d.delete(ctx, target, object)
}

// source returns the source and its service account. The UID of a source that does not exist is empty.
func (d *disconnection) source(
	ctx context.Context, target *cluster.Cluster,
) (client.Object, types.NamespacedName, error) {
	o := &d.options
	if o.namespaced {
		source := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.sourceName}}
		err := target.GetIfExists(ctx, source)
		return source, types.NamespacedName{Namespace: o.namespace, Name: source.Spec.ServiceAccountName}, err
	}
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: o.sourceName}}
	err := target.GetIfExists(ctx, source)
	account := types.NamespacedName{}
	if reference := source.Spec.ServiceAccount; reference != nil {
		account = types.NamespacedName{Namespace: reference.Namespace, Name: reference.Name}
	}
	return source, account, err
}

func (d *disconnection) delete(
	ctx context.Context, in *cluster.Cluster, object client.Object, options ...client.DeleteOption,
) error {
	description := in.Describe(object)
	if err := in.Client.Delete(ctx, object, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s in context %q: %w", description, in.Context, err)
	}
	d.say(in, "%s deleted", description)
	return nil
}

func (d *disconnection) say(in *cluster.Cluster, format string, args ...any) {
	in.Say(d.streams.Out, format, args...)
}
