// Package app is the command line of the manager: its flags, configuration file and logs.
package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/restart"
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
	cmd.PersistentFlags().StringVar(&f.config, "config", "", "configuration file (required)")
	cmd.PersistentFlags().StringVar(&f.logLevel, "log-level", "info",
		"how much to log: error, info (state changes), debug (decisions), or a number from 2 to 9 for more")
	cmd.PersistentFlags().StringVar(&f.logFormat, "log-format", "json", "format of the logs: json or console")
	_ = cmd.MarkPersistentFlagRequired("config")
	cmd.AddCommand(newUninstall(&f))
	return cmd
}

func run(ctx context.Context, f flags) error {
	log, config, restConfig, err := prepare(f)
	if err != nil {
		return err
	}
	pod := manager.Pod{
		Namespace:      os.Getenv("POD_NAMESPACE"),
		ServiceAccount: os.Getenv("POD_SERVICE_ACCOUNT"),
		IP:             os.Getenv("POD_IP"),
		Pause:          restart.Pause(),
	}
	log.Info("starting", "version", version.Version, "namespace", pod.Namespace, "ip", pod.IP)
	if err := registerRestarts(); err != nil {
		return err
	}
	started := clock.RealClock{}.Now()
	err = manager.Run(ctrl.LoggerInto(ctx, log), restConfig, config, pod)
	if err == nil || ctx.Err() != nil {
		return err
	}
	log.Error(err, "The manager starts again")
	return errors.Join(err, restart.Exec(clock.RealClock{}.Since(started)))
}

// registerRestarts registers a metric, because a kubelet counts no start of a process that replaces itself.
func registerRestarts() error {
	restarts := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "multicluster_scheduler_restarts",
		Help: "How often the manager has started itself again in this container, after a failure.",
	})
	restarts.Set(float64(restart.Restarts()))
	if err := ctrlmetrics.Registry.Register(restarts); err != nil {
		return fmt.Errorf("registering the metric of restarts: %w", err)
	}
	return nil
}

// prepare makes the logger, and reads the configuration file and the address of the API server.
func prepare(f flags) (logr.Logger, *configv1alpha1.Configuration, *rest.Config, error) {
	log, err := newLogger(f)
	if err != nil {
		return log, nil, nil, err
	}
	ctrl.SetLogger(log)
	klog.SetLogger(log)

	data, err := os.ReadFile(f.config)
	if err != nil {
		return log, nil, nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	config, err := configv1alpha1.Load(data)
	if err != nil {
		return log, nil, nil, fmt.Errorf("%s: %w", f.config, err)
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return log, nil, nil, fmt.Errorf("finding the API server of this cluster: %w", err)
	}
	return log, config, restConfig, nil
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
	config.DisableStacktrace = true // An error's text says where it comes from.
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
