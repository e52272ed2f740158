package manager

import (
	"context"
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// lease is the Lease of the leader. It calls lost as soon as another manager holds the Lease, or may hold it because
// the last renewal was too long ago.
//
// Leader election of client-go is too slow. It gives up ten seconds after the first failed renewal, and tries to
// release the Lease before it reports the loss. Until then, a manager that was stalled, or cannot reach its API server,
// would place delegates beside the next leader. Some pods would have two delegates.
type lease struct {
	resourcelock.Interface
	clock clock.WithDelayedExecution
	lost  func() // may be called again

	mu      sync.Mutex  // guards leading
	leading clock.Timer // fires at the end of the right to lead; nil while we do not lead
}

// newLease returns the lease, and a channel that is closed when the Lease is lost.
func newLease(config *rest.Config, namespace, name string) (*lease, <-chan struct{}, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the name of the host: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock,
		namespace,
		name,
		identity,
		config,
		timeouts.LeaseRenewal,
	)
	if err != nil {
		return nil, nil, fmt.Errorf("making a lock of Lease %q: %w", namespace+"/"+name, err)
	}
	lost := make(chan struct{})
	return &lease{Interface: lock, clock: clock.RealClock{}, lost: sync.OnceFunc(func() { close(lost) })}, lost, nil
}

// Get reads the Lease. It notices that another manager holds it.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() && l.leads() {
		l.lost()
	}
	return record, raw, err
}

// Create takes a Lease that does not exist.
func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(ctx, record, l.Interface.Create)
}

// Update takes, renews or releases the Lease.
func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(ctx, record, l.Interface.Update)
}

func (l *lease) writeRecord(ctx context.Context, record resourcelock.LeaderElectionRecord,
	write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	asked := l.clock.Now()
	if err := write(ctx, record); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leading != nil {
		l.leading.Stop()
		l.leading = nil
	}
	if record.HolderIdentity == l.Identity() {
		l.leading = l.clock.AfterFunc(timeouts.LeaseEndsProcess-l.clock.Since(asked), l.lost)
	}
	return nil
}

func (l *lease) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading != nil
}
