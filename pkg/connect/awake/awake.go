package awake

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// State is what is known about the manager of a target.
type State int

const (
	// Unknown means that nothing has been seen for long enough.
	Unknown State = iota
	// Awake means that a renewal was seen of late.
	Awake
	// Silent means that no renewal was seen for timeouts.SilentAfter.
	Silent
	// NoLease means that the target has no such Lease: its manager is too old, or the chart makes none.
	NoLease
)

// Observer remembers what was seen of the Lease of a target's manager. The zero value has seen nothing. It is not safe
// for concurrent use.
type Observer struct {
	state   State
	stamp   string
	changed time.Time // when stamp was first seen
	looked  time.Time
	fences  bool
	changes bool
	spares  bool
}

// Due says whether it is time to look at the Lease. While a renewal is overdue, looks are more frequent.
func (o *Observer) Due(now time.Time) bool {
	interval := timeouts.Health
	if now.Sub(o.changed) > timeouts.PresenceRenewal+timeouts.PresenceDoubt {
		interval = timeouts.PresenceDoubt
	}
	// Half a look is allowed for clocks and tickers that are not exact.
	return now.Sub(o.looked) > interval-timeouts.PresenceDoubt/2
}

// Look records the Lease as it was seen at a time. It is nil if there is none.
func (o *Observer) Look(lease *coordinationv1.Lease, now time.Time) {
	o.looked = now
	if lease == nil {
		*o = Observer{state: NoLease, looked: now}
		return
	}
	_, o.fences = lease.Annotations[v1alpha1.AnnotationFences]
	_, o.changes = lease.Annotations[v1alpha1.AnnotationChanges]
	o.spares = lease.Spec.RenewTime != nil &&
		lease.Annotations[v1alpha1.AnnotationSpares] == translate.RenewedAt(*lease.Spec.RenewTime)
	stamp := stampOf(lease)
	switch first := o.stamp == ""; {
	case first && o.state == NoLease, !first && stamp != o.stamp:
		o.state, o.stamp, o.changed = Awake, stamp, now
	case first:
		o.stamp, o.changed = stamp, now
	case now.Sub(o.changed) >= timeouts.SilentAfter:
		o.state = Silent
	}
}

// Miss records that the Lease could not be read. A target that does not answer is not silent: it is lost.
func (o *Observer) Miss(now time.Time) {
	o.changed = o.changed.Add(now.Sub(o.looked))
	o.looked = now
}

// State returns the state as of the last look.
func (o *Observer) State() State { return o.state }

// Fences says whether the manager fences delegates, as of the last look.
func (o *Observer) Fences() bool { return o.fences }

// Changes says whether the manager applies changes to delegates, as of the last look.
func (o *Observer) Changes() bool { return o.changes }

// Spares says whether the manager spares withdrawn delegates that have a node, as of the last look.
func (o *Observer) Spares() bool { return o.spares }

// Since returns when the last renewal was seen.
func (o *Observer) Since() time.Time { return o.changed }

func stampOf(lease *coordinationv1.Lease) string {
	stamp := string(lease.UID)
	if lease.Spec.RenewTime != nil {
		stamp += lease.Spec.RenewTime.UTC().Format(time.RFC3339Nano)
	}
	return stamp + "."
}
