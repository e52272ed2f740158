package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

const (
	flagContext = "context"
	timeout     = 30 * time.Second

	examples = `  # The targets of the current context's cluster
  kubectl multicluster status

  # ClusterTargets and the Targets of one namespace, with more columns
  kubectl multicluster status --context c1 --namespace team-a --output wide`
)

type options struct {
	context, namespace, output string
}

// New returns the command `status`.
func New(kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:     "status",
		Aliases: []string{"targets"},
		Short:   "Show the targets of a cluster: connected, virtual node, version, pods, free CPU and memory",
		Long: `Show the targets of a cluster.

EXPIRES is how long the credentials for the target are valid, unless the manager renews them before. PODS is the number
of elected pods in the target, of the number that it takes. FREE CPU and FREE MEMORY are left for more of them.
Below the table, a sentence for each target that does not take pods explains why.`,
		Example: examples,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return o.run(command.Context(), kubeconfig, streams.Out)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.context, flagContext, "", "context of the source cluster (default: the current context)")
	flags.StringVarP(&o.namespace, "namespace", "n", "",
		"show ClusterTargets and the Targets of this namespace (default: of all namespaces)")
	flags.StringVarP(&o.output, "output", "o", "", "wide, json or yaml (default: a table)")
	if err := command.RegisterFlagCompletionFunc(flagContext, kubeconfig.CompleteContexts); err != nil {
		panic(err) // The flag is the one above.
	}
	return command
}

func (o *options) run(ctx context.Context, kubeconfig *cluster.Kubeconfig, out io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	source, err := kubeconfig.Open(o.context, flagContext)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := source.CheckInstalled(ctx); err != nil {
		return err
	}
	observed, err := observe(ctx, source, o.namespace)
	if err != nil {
		return err
	}
	return printRows(out, observed.rows(), source.Context, o.output, clock.RealClock{}.Now())
}

func checkOutput(output string) error {
	switch output {
	case "", "wide", "json", "yaml":
		return nil
	default:
		return fmt.Errorf("--output must be wide, json or yaml, not %q", output)
	}
}

func printRows(out io.Writer, rows []row, contextName, output string, now time.Time) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows) //nolint:gosec // The field Secret is a text about the Secret.
	case "yaml":
		raw, err := yaml.Marshal(rows) //nolint:gosec // As above.
		if err != nil {
			return err
		}
		_, err = out.Write(raw)
		return err
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintf(out, "The cluster of context %q has no targets. Connect one with: "+
			"kubectl multicluster connect NAME --target-context CONTEXT\n", contextName)
		return err
	}
	return printTable(out, rows, output == "wide", now)
}
