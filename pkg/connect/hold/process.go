package hold

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// OwnLease is the Lease of the leader in the source cluster. A copy of the cluster has a copy of it.
type OwnLease interface {
	// NextHolder returns the holder that the last leader left behind, or an empty string.
	NextHolder(ctx context.Context) (string, error)
	// SetNextHolder leaves a holder behind.
	SetNextHolder(ctx context.Context, holder string) error
}

// Options of New. All are required, except OwnLease.
type Options struct {
	// ClusterID is the source's.
	ClusterID string
	// Name is for people who look at a Lease: the name of the pod, say.
	Name  string
	Clock clock.WithDelayedExecution
	// OwnLease is nil if there is no leader election. Then no Lease is left to the next leader.
	OwnLease OwnLease
}

// Process is what all holds of a process share. It is safe for concurrent use.
type Process struct {
	options Options
	holder  string
	// next is the holder to which this process leaves its Leases. It is stored nowhere before.
	next string

	mu      sync.Mutex // guards the fields below
	seen    map[types.NamespacedName]sight
	leading time.Time // when this process began to lead; zero before
	// heir is the holder that the last leader left behind; nil if it was not read yet.
	heir *string
}

// sight is what was seen of the Lease in a target.
type sight struct {
	uid     types.UID
	holder  string
	renewed time.Time // by the holder's clock
	epoch   int64
	// remembered is the highest epoch so far. back says that the target was set back since, which nobody has accepted.
	remembered int64
	back       bool
	// looked is when the Lease was last looked at, and changed when the holder or its renewal was seen to differ.
	looked, changed time.Time
	// rival says that somebody renewed the Lease while this process led its own cluster.
	rival bool
}

// New returns a Process with a holder of its own.
func New(options Options) *Process {
	return &Process{
		options: options,
		holder:  options.Name + "_" + random(),
		next:    options.Name + "_" + random(),
		seen:    map[types.NamespacedName]sight{},
	}
}

// random returns 128 random bits.
func random() string {
	bits := make([]byte, 16)
	_, _ = rand.Read(bits) // It never fails.
	return hex.EncodeToString(bits)
}

// Lead notes that this process leads its cluster from now on.
func (p *Process) Lead() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leading = p.options.Clock.Now()
}

// Stop leaves the Leases that are released from now on to the next leader. It returns when the next leader can know.
func (p *Process) Stop(ctx context.Context) error {
	if p.options.OwnLease == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.HoldRenewal)
	defer cancel()
	if err := p.options.OwnLease.SetNextHolder(ctx, p.next); err != nil {
		return fmt.Errorf("leaving the Leases in targets to the next leader: %w", err)
	}
	return nil
}

// Watch notes a Lease as a replica sees it that does not lead. What it sees must not be from a cache that can lag. Once
// this process leads, Watch does nothing: a late event would look as if the target had been set back.
func (p *Process) Watch(target types.NamespacedName, lease *coordinationv1.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leading.IsZero() {
		p.see(target, lease)
	}
}

// Forget forgets a target that was deleted, or whose Lease nobody watches any more.
func (p *Process) Forget(target types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, target)
}

// look notes what is seen of a target's Lease, and returns what is known now. The Lease must not be from a cache that
// can lag.
func (p *Process) look(target types.NamespacedName, lease *coordinationv1.Lease) sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.see(target, lease)
}

// see is look, for callers who hold the lock.
func (p *Process) see(target types.NamespacedName, lease *coordinationv1.Lease) sight {
	now := p.options.Clock.Now()
	was := p.seen[target]
	if was.uid != lease.UID {
		was = sight{} // It is another Lease, of another cluster or another user, or made anew.
	}
	is := sight{
		uid: lease.UID, holder: holderOf(lease), renewed: renewedAt(lease), epoch: epochOf(lease),
		looked: now, changed: now, rival: was.rival,
	}
	is.remembered = max(was.remembered, is.epoch)
	is.back = was.back || is.before(was)
	switch first := was.looked.IsZero(); {
	case is.holder == p.holder:
		is.rival = false
	case !first && was.holder == is.holder && was.renewed.Equal(is.renewed):
		is.changed = was.changed
	case p.someoneElse(is.holder) && !p.leading.IsZero() && !was.looked.Before(p.leading):
		is.rival = true
	}
	p.seen[target] = is
	return is
}

// before says whether a sight is of an earlier state of the Lease than another one that was seen before it.
func (s sight) before(was sight) bool {
	return s.epoch < was.remembered ||
		s.epoch == was.epoch && s.holder == was.holder && s.renewed.Before(was.renewed)
}

// someoneElse says whether the holder is a process, and not this one.
func (p *Process) someoneElse(holder string) bool {
	return holder != "" && holder != p.holder && (p.heir == nil || holder != *p.heir)
}

// note changes what is known about a target's Lease.
func (p *Process) note(target types.NamespacedName, change func(*sight)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is := p.seen[target]
	change(&is)
	p.seen[target] = is
}

// readHeir reads the holder that the last leader left behind, once. Without an answer, there is none.
func (p *Process) readHeir(ctx context.Context) {
	p.mu.Lock()
	known := p.heir != nil || p.options.OwnLease == nil
	p.mu.Unlock()
	if known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.HoldRenewal)
	defer cancel()
	heir, err := p.options.OwnLease.NextHolder(ctx)
	if err != nil {
		return // It is tried again with the next target. Until then, the Lease expires.
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heir = &heir
}
