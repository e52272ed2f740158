package status

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
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

// New makes the command.
func New(kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) *cobra.Command {
	var contextName, namespace, output string
	command := &cobra.Command{
		Use:     "status",
		Aliases: []string{"targets"},
		Short:   "Show the targets of a cluster: connected, virtual node, version, pods, free CPU and memory",
		Long: `Show the targets of a cluster. PODS are the elected pods there, of those that it takes; FREE is what is left for more of
them. Below the table, a sentence for each target that does not take pods says why.`,
		Example: examples,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			source, err := kubeconfig.Open(contextName, flagContext)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			if err := source.CheckInstalled(ctx); err != nil {
				return err
			}
			seen, err := read(ctx, source, namespace)
			if err != nil {
				return err
			}
			return write(streams, seen.rows(), source.Context, output)
		},
	}
	flags := command.Flags()
	flags.StringVar(&contextName, flagContext, "", "context of the source cluster (default: the current context)")
	flags.StringVarP(&namespace, "namespace", "n", "", "show the Targets of this namespace only, beside the ClusterTargets (default: of all)")
	flags.StringVarP(&output, "output", "o", "", "wide, json or yaml (default: a table)")
	if err := command.RegisterFlagCompletionFunc(flagContext, kubeconfig.CompleteContexts); err != nil {
		panic(err) // The flag is the one above.
	}
	return command
}

func checkOutput(output string) error {
	switch output {
	case "", "wide", "json", "yaml":
		return nil
	default:
		return fmt.Errorf("there is no --output %q; there are: wide, json, yaml", output)
	}
}

func write(streams genericiooptions.IOStreams, rows []row, contextName, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	case "yaml":
		raw, err := yaml.Marshal(rows)
		if err != nil {
			return err
		}
		_, err = streams.Out.Write(raw)
		return err
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintf(streams.Out, "The cluster of context %q has no targets. Connect one with: kubectl multicluster connect NAME --target-context CONTEXT\n", contextName)
		return err
	}
	return printTable(streams.Out, rows, output == "wide")
}
