package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

const (
	flagSource = "source-context"
	flagTarget = "target-context"

	defaultTokenDuration = 24 * time.Hour

	examples = `  # Run pods of the current context's cluster in the cluster of context c2: virtual node admiralty-c2
  kubectl multicluster connect c2 --target-context c2

  # Name both contexts; in kind, pods reach another cluster by the name of its container
  kubectl multicluster connect c2 --source-context kind-c1 --target-context kind-c2 \
    --server https://c2-control-plane:6443

  # Make a cluster its own target
  kubectl multicluster connect c1 --source-context c1 --self

  # Connect for the pods of one namespace only
  kubectl multicluster connect c2 --target-context c2 --namespaced --namespace team-a

  # The token has expired, because the source was down for a day, or was restored: write a new one
  kubectl multicluster connect c2 --target-context c2 --renew`
)

type options struct {
	name                    string
	sourceContext           string
	targetContext           string
	self                    bool
	renew                   bool
	namespaced              bool
	namespace               string
	server                  string
	sourceName              string
	secretNamespace         string
	serviceAccountNamespace string
	releaseNamespace        string // of the chart in the source
	accept                  bool
	tokenDuration           time.Duration
	timeout                 time.Duration
}

// New returns the command `connect`.
func New(kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) *cobra.Command {
	o := options{}
	command := &cobra.Command{
		Use:   "connect NAME",
		Short: "Make a cluster a target of another one, or of itself",
		Long: `Make a cluster (the target) run pods of another (the source), or of itself.

NAME is the name of the target in the source. The virtual node is called admiralty-NAME, or admiralty-NAMESPACE-NAME
with --namespaced. If NAME or NAMESPACE has a hyphen, a hash follows.

The chart must be installed in both clusters. In the target, the command creates a ClusterSource (or Source) with a
service account. In the source, it creates a Secret with a kubeconfig, and a ClusterTarget (or Target). The command ends
when the target takes pods, or says why it does not.

The token expires within a day. The source's manager renews it by itself, with a right that this command gives the
service account in the target: to make tokens for itself only. If the manager could not do so in time, for example in a
source that was restored from a backup, use --renew.`,
		Example: examples,
		Args:    cluster.OneName,
		RunE: func(command *cobra.Command, args []string) error {
			o.name = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), o.timeout)
			defer cancel()
			if o.renew {
				return renew(ctx, o, kubeconfig, streams)
			}
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
	flags.StringVar(&o.targetContext, flagTarget, "", "context of the target cluster")
	flags.BoolVar(&o.self, "self", false, "make the source cluster its own target")
	flags.BoolVar(&o.namespaced, "namespaced", false,
		"connect for the pods of one namespace only, which must exist in both clusters, by a Source and a Target")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace for --namespaced (default: the source context's)")
	flags.StringVar(&o.server, "server", "",
		"address of the target's API server for pods of the source (default: the target context's)")
	flags.StringVar(&o.sourceName, "source-name", "",
		"name of the source in the target (default: derived from the source context's name)")
	flags.StringVar(&o.secretNamespace, "secret-namespace", "admiralty",
		"namespace of the chart in the source; a ClusterTarget's Secret is there")
	flags.StringVar(&o.serviceAccountNamespace, "service-account-namespace", "admiralty",
		"namespace of the chart in the target, for a ClusterSource's service account")
	flags.BoolVar(&o.accept, "accept", false,
		"accept that NAME leads to another cluster than before; pods that the new cluster does not have are replaced")
	flags.DurationVar(&o.tokenDuration, "token-duration", defaultTokenDuration,
		"validity of the token, which the source's manager renews; at least 10m; 0 makes a token without end, in a "+
			"Secret")
	flags.BoolVar(&o.renew, "renew", false,
		"only write a new token into the kubeconfig of a target that exists; everything else stays as it is")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long to wait for the connection")
}

// validate checks the arguments, without a cluster.
func (o *options) validate() error {
	if problems := validation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
		return fmt.Errorf("NAME %q cannot be the name of a target: %s", o.name, problems[0])
	}
	if o.self && o.targetContext != "" {
		return fmt.Errorf("--self makes the source its own target: leave out --%s", flagTarget)
	}
	if !o.self && o.targetContext == "" {
		return fmt.Errorf("which cluster is the target? Name its context with --%s, or use --self", flagTarget)
	}
	if o.namespace != "" && !o.namespaced {
		return errors.New("--namespace needs --namespaced; without it, the target is for every namespace")
	}
	if o.sourceName != "" && o.sourceName != cluster.NameFrom(o.sourceName) {
		return fmt.Errorf("--source-name %q must be at most 63 lower-case letters, digits and hyphens", o.sourceName)
	}
	if o.server != "" && !strings.HasPrefix(o.server, "https://") {
		return fmt.Errorf("--server %q must be an address like https://10.0.0.1:6443", o.server)
	}
	return o.validateActions()
}

// validateActions checks the flags that say what to do with a target that exists.
func (o *options) validateActions() error {
	switch {
	case o.accept && o.self:
		return errors.New("--accept is for other clusters: leave out --self")
	case o.tokenDuration != 0 && o.tokenDuration < 10*time.Minute:
		return errors.New("--token-duration must be 10 minutes or more, or 0 for a token without end")
	case o.renew && o.self:
		return errors.New("--renew is for tokens, and a cluster that is its own target has none: leave out --self")
	case o.renew && o.server != "":
		return errors.New("--renew keeps the address in the kubeconfig: leave out --server, or --renew")
	default:
		return nil
	}
}
