package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

const (
	flagContext = "context"
	timeout     = 30 * time.Second

	examples = `  # Why is this pod pending, or why is it where it is?
  kubectl multicluster explain pod web-5d4f8

  # Of another namespace and context, and everything that is known, for programs
  kubectl multicluster explain pod/web-5d4f8 --context c1 --namespace team-a --output json`
)

// New makes the command.
func New(kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) *cobra.Command {
	var contextName, namespace, output string
	command := &cobra.Command{
		Use:   "explain pod NAME",
		Short: "Say why a pod is in the target that it is in, or in none: what was seen, tried and answered",
		Long: `Say why an elected pod is in the target that it is in, or in none yet.

For each target: whether the pod fits there, its score, and if it does not fit, what is missing. Then what was tried, for how long, and
what the target answered. VERDICT is one of
  chosen       the pod goes, or went, there
  fits         it would fit there, too
  unsure       only the target knows: it is asked if the pod fits nowhere else
  may preempt  the target would have to evict pods of lower priority
  may grow     the target would have to add a node
  no           it cannot take the pod now

Of a pod that does not take part, it says what to add.

The manager that leads knows this, of the pods that it scheduled last. To ask it takes the rights "get" on nodes/proxy of a virtual node and
"list" on nodes; the former is an administrator's, because it lets one run commands in pods, too. Without, you see the pod's condition
and events, which say the most important.`,
		Example: examples,
		RunE: func(command *cobra.Command, args []string) error {
			name, err := podName(args)
			if err != nil {
				return err
			}
			if err := checkOutput(output); err != nil {
				return err
			}
			source, err := kubeconfig.Open(contextName, flagContext)
			if err != nil {
				return err
			}
			if namespace == "" {
				namespace = source.Namespace
			}
			ctx, cancel := context.WithTimeout(command.Context(), timeout)
			defer cancel()
			seen, err := read(ctx, source, client.ObjectKey{Namespace: namespace, Name: name})
			if err != nil {
				return err
			}
			now := clock.RealClock{}.Now()
			return write(streams.Out, newReport(seen, now), now, output)
		},
	}
	flags := command.Flags()
	flags.StringVar(&contextName, flagContext, "", "context of the source cluster (default: the current context)")
	flags.StringVarP(&namespace, "namespace", "n", "", "namespace of the pod (default: the context's)")
	flags.StringVarP(&output, "output", "o", "text", "text, json or yaml")
	if err := command.RegisterFlagCompletionFunc(flagContext, kubeconfig.CompleteContexts); err != nil {
		panic(err) // The flag is the one above.
	}
	return command
}

// podName reads `pod NAME` and `pod/NAME`.
func podName(args []string) (string, error) {
	if len(args) == 1 {
		args = strings.SplitN(args[0], "/", 2)
	}
	const usage = "kubectl multicluster explain pod NAME"
	switch {
	case len(args) == 0:
		return "", errors.New("which pod? " + usage)
	case len(args) > 2:
		return "", fmt.Errorf("one pod at a time, got %d arguments: %s", len(args), usage)
	case !slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(args[0])):
		return "", fmt.Errorf("only pods are explained, not %q: %s", args[0], usage)
	case len(args) == 1 || args[1] == "":
		return "", errors.New("which pod? " + usage)
	}
	return args[1], nil
}

func checkOutput(output string) error {
	switch output {
	case "text", "json", "yaml":
		return nil
	default:
		return fmt.Errorf("there is no --output %q; there are: text, json, yaml", output)
	}
}
