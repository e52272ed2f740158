// Package app is the command line of the manager: its flags, configuration file and logs.
package app

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/version"
)

type flags struct {
	config    string
	logLevel  string
	logFormat string
}

// New returns the command. It runs until its context ends, then stops in order and returns nil.
func New() *cobra.Command {
	f := flags{}
	cmd := &cobra.Command{
		Use:   "multicluster-scheduler",
		Short: "Runs the pods of one Kubernetes cluster in many",
		Long: "The manager of the multicluster scheduler. The same program serves source and target clusters. " +
			"Install it with the Helm chart.",
		Version:       version.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file (required)")
	cmd.Flags().StringVar(&f.logLevel, "log-level", "info",
		"how much to log: error, info (state changes), debug (decisions), or a number from 2 to 9 for more")
	cmd.Flags().StringVar(&f.logFormat, "log-format", "json", "format of the logs: json or console")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

func run(ctx context.Context, f flags) error {
	log, err := newLogger(f)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	data, err := os.ReadFile(f.config)
	if err != nil {
		return fmt.Errorf("reading the configuration file: %w", err)
	}
	config, err := configv1alpha1.Load(data)
	if err != nil {
		return fmt.Errorf("%s: %w", f.config, err)
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server of this cluster: %w", err)
	}
	pod := manager.Pod{
		Namespace:      os.Getenv("POD_NAMESPACE"),
		ServiceAccount: os.Getenv("POD_SERVICE_ACCOUNT"),
		IP:             os.Getenv("POD_IP"),
	}
	log.Info("starting", "version", version.Version, "namespace", pod.Namespace, "ip", pod.IP)
	return manager.Run(ctrl.LoggerInto(ctx, log), restConfig, config, pod)
}

func newLogger(f flags) (logr.Logger, error) {
	level, err := parseLevel(f.logLevel)
	if err != nil {
		return logr.Logger{}, err
	}
	config := zap.NewProductionConfig()
	if f.logFormat != "json" && f.logFormat != "console" {
		return logr.Logger{}, fmt.Errorf("--log-format %q: use json or console", f.logFormat)
	}
	config.Encoding = f.logFormat
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.Level = zap.NewAtomicLevelAt(level)
	config.Sampling = nil
	logger, err := config.Build()
	if err != nil {
		return logr.Logger{}, fmt.Errorf("making the logger: %w", err)
	}
	return zapr.NewLogger(logger), nil
}

// parseLevel parses the name of a zap level, or a verbosity of logr.
func parseLevel(s string) (zapcore.Level, error) {
	if verbosity, err := strconv.ParseUint(s, 10, 7); err == nil {
		return -zapcore.Level(verbosity), nil
	}
	level, err := zapcore.ParseLevel(s)
	if err != nil {
		return 0, fmt.Errorf("--log-level %q: use error, info, debug, or a number", s)
	}
	return level, nil
}
