package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// lease is the Lease of the leader. It calls lost as soon as another manager holds the Lease, or may hold it because
// the last renewal was too long ago.
//
// Leader election of client-go is too slow. It gives up ten seconds after the first failed renewal, and tries to
// release the Lease before it reports the loss. Until then, a manager that was stalled, or cannot reach its API server,
// would place delegates beside the next leader. Some pods would have two delegates.
//
// It also calls lost if the Lease is from the past: somebody restored etcd from a backup. Watches do not notice that,
// because they wait for resource versions that come later. So all caches of this process are of another time.
type lease struct {
	resourcelock.Interface
	clock clock.WithDelayedExecution
	lost  func(error) // may be called again

	mu      sync.Mutex  // guards the fields below
	leading clock.Timer // fires at the end of the right to lead; nil while we do not lead
	until   time.Time   // the end of the right to lead; zero while we do not lead
	// last is what this process saw, or wrote, last. It is nil if there was no Lease.
	last *resourcelock.LeaderElectionRecord
}

var (
	errLost = errors.New(
		"the lease was lost: this manager was stalled or could not renew it in time, and another may lead by now",
	)
	errSetBack = errors.New(
		"the lease is of an earlier time: this cluster was restored from a backup, and the manager begins anew",
	)
)

// newLease returns the lease, and a channel that says why the Lease is lost.
func newLease(config *rest.Config, namespace, name string) (*lease, <-chan error, error) {
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
	lost := make(chan error, 1)
	report := func(why error) {
		select {
		case lost <- why:
		default: // Nobody waits for more than the first reason.
		}
	}
	return &lease{Interface: lock, clock: clock.RealClock{}, lost: report}, lost, nil
}

// Get reads the Lease. It notices that another manager holds it, and that it is from the past.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	switch {
	case apierrors.IsNotFound(err):
		l.note(nil)
	case err != nil:
	case l.note(record):
		l.lost(errSetBack)
	case record.HolderIdentity != l.Identity() && l.leads():
		l.lost(errLost)
	}
	return record, raw, err
}

// note notes the Lease as it is now, and says whether it is of an earlier time than before.
func (l *lease) note(record *resourcelock.LeaderElectionRecord) (back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.last
	l.last = nil
	if record != nil {
		l.last = new(*record)
	}
	return was != nil && record != nil && l.earlier(*record, *was)
}

// clockStep is by how much another holder's clock may be set back between two renewals. A greater step costs a process
// that does not lead: it begins anew.
const clockStep = time.Second

// earlier says whether a Lease is of an earlier time than it was before. Whoever takes the Lease raises the number of
// transitions, and a holder that releases it does not. Of our own renewals, each that was acknowledged has to be there,
// whatever our clock says. API servers keep microseconds.
func (l *lease) earlier(record, was resourcelock.LeaderElectionRecord) bool {
	if record.LeaderTransitions != was.LeaderTransitions {
		return record.LeaderTransitions < was.LeaderTransitions
	}
	if record.HolderIdentity != was.HolderIdentity {
		return record.HolderIdentity != ""
	}
	lacks := was.RenewTime.Truncate(time.Microsecond).Sub(record.RenewTime.Time)
	mine := record.HolderIdentity == l.Identity()
	return lacks > clockStep || mine && lacks > 0
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
	l.last = &record
	if l.leading != nil {
		l.leading.Stop()
		l.leading, l.until = nil, time.Time{}
	}
	if record.HolderIdentity == l.Identity() {
		l.until = asked.Add(timeouts.LeaseEndsProcess)
		l.leading = l.clock.AfterFunc(timeouts.LeaseEndsProcess-l.clock.Since(asked), func() { l.lost(errLost) })
	}
	return nil
}

func (l *lease) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leading != nil
}

// fence returns a config whose writes fail when the right to lead has ended. The process ends then. But a process that
// was frozen may go on for a moment before its timer fires, and must not overwrite the writes of the next leader.
func (l *lease) fence(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap((&wire.Fence{Lead: l.ended}).Wrap)
	return config
}

// ended returns an error if the right to lead has ended without a release. It is the right to lead of each wire.Fence.
func (l *lease) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until.IsZero() || l.clock.Now().Before(l.until) {
		return nil
	}
	return errLost
}
