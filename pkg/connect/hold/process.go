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
	sent    map[types.NamespacedName]time.Time // when the last renewal was sent to a target
	sentTo  map[string]time.Time               // the same by the ID of the target's cluster
	leading time.Time                          // when this process began to lead; zero before
	// relied says until when a right of this process may rely on HoldDurationWary of the Lease with a UID.
	relied map[types.UID]time.Time
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
	// doubted is when somebody was first seen to renew the Lease while this process led its own cluster. This may be
	// one late renewal of the last leader, whose process was frozen. rival says that somebody goes on to renew it.
	doubted time.Time
	rival   bool
}

// New returns a Process with a holder of its own.
func New(options Options) *Process {
	return &Process{
		options: options,
		holder:  options.Name + "_" + random(),
		next:    options.Name + "_" + random(),
		seen:    map[types.NamespacedName]sight{},
		sent:    map[types.NamespacedName]time.Time{},
		sentTo:  map[string]time.Time{},
		relied:  map[types.UID]time.Time{},
	}
}

// lasting returns the duration for a renewal that is about to be written, and how long the hold then lasts. No renewal
// may have a shorter duration while an earlier one is relied on, also one of a sibling, with which a Lease is shared.
func (p *Process) lasting(lease types.UID, wary bool) (duration, lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	switch {
	case wary:
		p.relied[lease] = now.Add(timeouts.HoldEndsWary)
		return timeouts.HoldDurationWary, timeouts.HoldEndsWary
	case now.Before(p.relied[lease]):
		return timeouts.HoldDurationWary, timeouts.HoldEnds
	}
	delete(p.relied, lease)
	return timeouts.HoldDuration, timeouts.HoldEnds
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

// LastSent returns when this source sent the last renewal to a target, or to any target in the cluster with an ID,
// which may be empty, whether it was answered or not. Of what earlier leaders sent, this process knows that it was
// before it led. It returns the zero time before this process leads.
func (p *Process) LastSent(target types.NamespacedName, cluster string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.leading
	for _, sent := range []time.Time{p.sent[target], p.sentTo[cluster]} {
		if sent.After(last) {
			last = sent
		}
	}
	return last
}

// noteSending notes that a renewal is about to be sent, or was sent until now. It is remembered when the target is
// forgotten: the target may come back, and its siblings have the same cluster, which cannot tell them apart.
func (p *Process) noteSending(r Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.options.Clock.Now()
	p.sent[r.Target] = now
	if r.Cluster != "" {
		p.sentTo[r.Cluster] = now
	}
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
		looked: now, changed: now, doubted: was.doubted, rival: was.rival,
	}
	is.remembered = max(was.remembered, is.epoch)
	// Whoever takes the Lease after an acceptance, maybe another process, writes more than was remembered.
	is.back = is.before(was) || was.back && is.epoch <= was.remembered
	switch first := was.looked.IsZero(); {
	case is.holder == p.holder:
		is.doubted, is.rival = time.Time{}, false
	case !first && was.holder == is.holder && was.renewed.Equal(is.renewed):
		is.changed = was.changed
	case is.epoch < was.epoch: // It was set back to another holder, which may have ended long ago.
	case p.someoneElse(is.holder) && !p.leading.IsZero() && !was.looked.Before(p.leading):
		is.doubt(was.holder)
	}
	p.seen[target] = is
	return is
}

// doubt notes that somebody who is not this process has changed the Lease while this process led its own cluster. A
// process that lost its cluster's lead may do so once. If the same holder renews later, its process goes on.
func (s *sight) doubt(lastHolder string) {
	switch {
	case s.doubted.IsZero():
		s.doubted = s.looked
	case s.holder == lastHolder && s.looked.Sub(s.doubted) >= timeouts.HoldRenewal:
		s.rival = true
	}
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
