package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager/uninstall"
)

type uninstallFlags struct {
	deployment string
	webhook    string
	pods       string
	timeout    time.Duration
}

// newUninstall returns the command that the chart's Job runs before Helm deletes the release.
func newUninstall(f *flags) *cobra.Command {
	u := uninstallFlags{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Stops the manager, and removes virtual nodes and copies, before Helm deletes the release",
		Long: "The chart runs this in a Job when somebody runs helm uninstall. It ends delegates or leaves them, " +
			"stops the manager of this cluster, and removes the objects that Helm does not know.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd.Context(), *f, u) },
	}
	cmd.Flags().StringVar(&u.deployment, "deployment", "", "name of the manager's Deployment (required)")
	cmd.Flags().StringVar(&u.webhook, "webhook-configuration", "", "name of the webhook configurations (required)")
	cmd.Flags().StringVar(&u.pods, "pods", string(uninstall.End),
		"what happens to running delegates: end, or leave them running")
	cmd.Flags().DurationVar(&u.timeout, "timeout", 3*time.Minute, "time for all waiting together")
	_ = cmd.MarkFlagRequired("deployment")
	_ = cmd.MarkFlagRequired("webhook-configuration")
	return cmd
}

func runUninstall(ctx context.Context, f flags, u uninstallFlags) error {
	log, config, restConfig, err := prepare(f)
	if err != nil {
		return err
	}
	namespace := os.Getenv("POD_NAMESPACE")
	if namespace == "" {
		return errors.New("the environment variable POD_NAMESPACE must be set, from the pod's own field")
	}
	err = uninstall.Run(ctrl.LoggerInto(ctx, log), restConfig, uninstall.Options{
		Configuration: config,
		Deployment:    types.NamespacedName{Namespace: namespace, Name: u.deployment},
		Webhook:       u.webhook,
		Pods:          uninstall.Pods(u.pods),
		Timeout:       u.timeout,
	})
	if err != nil {
		return fmt.Errorf("making the cluster ready for the end of the release: %w", err)
	}
	return nil
}
