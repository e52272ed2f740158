package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Pods says what happens to running delegates.
type Pods string

const (
	// End ends the delegates of this cluster's pods in its targets, and the delegates of other clusters' pods here.
	End Pods = "end"
	// Leave lets all delegates run on. Proxies go with their virtual nodes, and nobody looks after the delegates.
	Leave Pods = "leave"
)

const (
	interval = time.Second
	// reportEvery is how often the log says what is waited for.
	reportEvery = 30 * time.Second
	// deleteTimeout is the time for requests after the last wait.
	deleteTimeout = 30 * time.Second
)

// Options of Run. All are required, except Notice.
type Options struct {
	// Configuration is that of the manager that is uninstalled.
	Configuration *configv1alpha1.Configuration
	// Deployment is that of the manager. Its Lease is in the same namespace, unless the configuration says otherwise.
	Deployment types.NamespacedName
	// Webhook is the name of the MutatingWebhookConfiguration.
	Webhook string
	Pods    Pods
	// Timeout is the time for all waiting together. Run returns at most 30 s later.
	Timeout time.Duration
	// Notice is the time that sources have to notice that the manager has stopped. The default is enough for all that
	// are connected.
	Notice time.Duration
}

// run is one call of Run. Its clients read and write the cluster directly, without a cache.
type run struct {
	Options

	client   client.Client
	metadata metadata.Interface
	clock    clock.PassiveClock
	log      logr.Logger
	until    time.Time // the end of all waiting
	// reported is what report logged last, and when.
	reported   string
	reportedAt time.Time
}

// Run makes the cluster ready for the end of the release: see the package. It logs what remains. It returns an error
// only if the cluster's API server refused something or did not answer, or if no time was left to end the delegates of
// sources. It can be called again.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	r, err := newRun(ctx, config, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, options.Timeout+deleteTimeout)
	defer cancel()
	return r.do(ctx)
}

func (r *run) do(ctx context.Context) error {
	manager, err := r.readManager(ctx)
	if err != nil {
		return err
	}
	if *r.Configuration.Roles.Source {
		if err := r.endProxies(ctx, manager.runs); err != nil {
			return err
		}
	}
	if err := r.stop(ctx, manager); err != nil {
		return err
	}
	stopped := r.clock.Now()
	var errs []error
	if *r.Configuration.Roles.Source {
		errs = append(errs, r.removeNodes(ctx), r.restoreServices(ctx))
	}
	if r.endsDelegates() {
		errs = append(errs, r.endDelegates(ctx, stopped))
	}
	return errors.Join(append(errs, r.deleteLeaderLease(ctx))...)
}

func newRun(ctx context.Context, config *rest.Config, options Options) (*run, error) {
	if options.Pods != End && options.Pods != Leave {
		return nil, fmt.Errorf("pods are to be %q: use %s or %s", options.Pods, End, Leave)
	}
	if options.Notice == 0 {
		options.Notice = notice
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), v1alpha1.FieldOwner)
	config.QPS = -1 // The API server's priority and fairness limits requests.
	config.Timeout = timeouts.Request
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("making the scheme: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	m, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	now := clock.RealClock{}
	return &run{
		Options: options, client: c, metadata: m, clock: now, log: log.FromContext(ctx),
		until: now.Now().Add(options.Timeout),
	}, nil
}

// await calls check until it returns true, an error, or the time is over. It says whether check returned true.
func (r *run) await(ctx context.Context, until time.Time, check wait.ConditionWithContextFunc) (bool, error) {
	done := false
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		var err error
		done, err = check(ctx)
		return done, err
	})
	if err != nil && ctx.Err() != nil {
		return false, nil // The time is over.
	}
	return done, err
}

// report logs what is waited for, at once and then every 30 s.
func (r *run) report(waiting string, until time.Time, counts ...any) {
	if now := r.clock.Now(); waiting != r.reported || now.Sub(r.reportedAt) >= reportEvery {
		r.reported, r.reportedAt = waiting, now
		r.log.Info(waiting, append([]any{"until", until.UTC().Format(time.RFC3339)}, counts...)...)
	}
}

// endsDelegates says whether delegates of sources are ended here.
func (r *run) endsDelegates() bool { return *r.Configuration.Roles.Target && r.Pods == End }

// patience returns how long proxies are waited for: half of the time, or less if delegates of sources are ended
// afterwards. The manager then has the time to stop, and sources have the time to notice.
func patience(timeout, notice time.Duration, endsDelegates bool) time.Duration {
	if !endsDelegates {
		return timeout / 2
	}
	return min(timeout/2, max(timeout-stopTimeout-notice-notice/4, timeout/5))
}
