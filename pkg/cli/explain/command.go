package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

	long = `Explain why an elected pod is in its target, or in none yet.

The table of targets shows for each target whether the pod fits there, the score, and the reason if it does not fit.
VERDICT is one of
  chosen       the pod goes, or went, there
  fits         the pod would fit there, too
  unsure       only the target knows whether the pod fits; it is tried there if it fits nowhere else
  may preempt  the target would have to evict pods of lower priority
  may grow     the target would have to add a node
  may queue    the target has room, but pods like this one wait there behind scheduling gates
  no           the target cannot take the pod now

The table of attempts shows where the pod was tried, for how long, and the target's answer. OUTCOME is one of
  Waiting             the target has not decided yet
  Bound               the target took the pod
  Refused             the target does not take the pod
  TimedOut            the target did not decide in time
  Lost                the target's decision is not known: it was disconnected or deleted, or requests failed
  ScheduledElsewhere  the pod's delegate is scheduled in another target
  CreateFailed        the delegate could not be requested
  Moved               the target did not decide yet, and another one had room
  StillEnding         an earlier delegate of the pod is still being deleted there

For a pod that is not elected, the command says what is missing.

The leading manager remembers the pods that it scheduled last. The command requests this through a virtual node, which
takes the right "get" on nodes/proxy of the node and "list" on nodes. Only administrators should have the first one,
because it also allows running commands in pods. Without these rights, the command shows the pod's condition and
events, which hold the most important facts.`

	examples = `  # Why is this pod pending, or why is it where it is?
  kubectl multicluster explain pod web-5d4f8

  # A pod of another namespace and context, with everything that is known, for programs
  kubectl multicluster explain pod/web-5d4f8 --context c1 --namespace team-a --output json`
)

type options struct {
	context, namespace, output string
}

// New returns the command `explain`.
func New(kubeconfig *cluster.Kubeconfig, streams genericiooptions.IOStreams) *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:     "explain pod NAME",
		Short:   "Explain why a pod is in its target, or in none: how targets compare, and what they answered",
		Long:    long,
		Example: examples,
		RunE: func(command *cobra.Command, args []string) error {
			return o.run(command.Context(), kubeconfig, streams.Out, args)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.context, flagContext, "", "context of the source cluster (default: the current context)")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of the pod (default: the context's)")
	flags.StringVarP(&o.output, "output", "o", "text", "text, json or yaml")
	if err := command.RegisterFlagCompletionFunc(flagContext, kubeconfig.CompleteContexts); err != nil {
		panic(err) // The flag is the one above.
	}
	return command
}

func (o *options) run(ctx context.Context, kubeconfig *cluster.Kubeconfig, out io.Writer, args []string) error {
	name, err := podName(args)
	if err != nil {
		return err
	}
	if err := checkOutput(o.output); err != nil {
		return err
	}
	source, err := kubeconfig.Open(o.context, flagContext)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: cmp.Or(o.namespace, source.Namespace), Name: name}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	observed, err := observe(ctx, source, key)
	if err != nil {
		return err
	}
	now := clock.RealClock{}.Now()
	return newReport(observed, now).write(out, now, o.output)
}

// podName returns NAME from the arguments `pod NAME` or `pod/NAME`.
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
		return fmt.Errorf("--output must be text, json or yaml, not %q", output)
	}
}
