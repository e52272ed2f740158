package main

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observer notes when the target's virtual node and the leaders of both clusters change.
type observer struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex // guards notes
	notes []note
}

type note struct {
	at         time.Time
	what, name string
}

const (
	began   = "a fault begins"
	cut     = "the target is cut off"
	over    = "a fault is over"
	ready   = "the node is Ready"
	unready = "the node is not Ready"
	unknown = "nobody knows whether the node is Ready"
	leads   = "another leads"
	// leadsThere is of the target's managers.
	leadsThere = "another leads in the target"
)

// noticeWithin is what docs/reliability.md promises.
const noticeWithin = 50 * time.Second

// times are measured in a round with one fault. Zero stands for something that did not happen.
type times struct {
	// of is the fault's name. It is empty if there were several.
	of string
	// noticed is the time from the beginning of the fault, or from when the target is cut off, until the node is not
	// Ready. That nobody knows whether it is Ready does not count.
	noticed time.Duration
	// back is the time from the end of the fault until the node is Ready again.
	back time.Duration
	// takenOver is the time from the beginning of the fault until another manager leads.
	takenOver time.Duration
	// takenOverThere is the same in the target.
	takenOverThere time.Duration
}

func (l *lab) observe(ctx context.Context) *observer {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(o.done)
		lastReady, holders := ready, map[string]string{}
		for ctx.Err() == nil {
			l.look(ctx, source)
			if state := l.look(ctx, target); state != "" && state != lastReady {
				lastReady = state
				o.note(state, "")
			}
			for name, what := range map[string]string{source: leads, target: leadsThere} {
				holder := l.holder(ctx, name)
				if holder == "" {
					continue
				}
				if last := holders[name]; last != "" && last != holder {
					o.note(what, holder)
				}
				holders[name] = holder
			}
			wait(ctx, pollEvery)
		}
	}()
	return o
}

// look tells the checker whether the virtual node of a cluster is Ready, and returns it, or "".
func (l *lab) look(ctx context.Context, name string) string {
	status := l.readiness(ctx, "admiralty-"+name)
	if status == "" {
		return ""
	}
	if own := l.readiness(ctx, source+"-node"); own != "" {
		l.history.OwnNode(own)
	}
	l.history.Node(name, status)
	return map[corev1.ConditionStatus]string{
		corev1.ConditionTrue: ready, corev1.ConditionFalse: unready, corev1.ConditionUnknown: unknown,
	}[status]
}

// readiness returns the condition Ready of a node of the source, or "" if it cannot be read.
func (l *lab) readiness(ctx context.Context, name string) corev1.ConditionStatus {
	node := &corev1.Node{}
	if err := l.clusters[source].Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return ""
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

func (l *lab) holder(ctx context.Context, name string) string {
	lease, err := l.lease(ctx, name)
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// lease returns that of the leader of a cluster's managers.
func (l *lab) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: managerNamespace, Name: managerName}
	return lease, l.clusters[name].Get(ctx, key, lease)
}

func (o *observer) note(what, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.notes = append(o.notes, note{at: time.Now(), what: what, name: name})
}

// stop ends the observation, and returns what was measured, if there was one fault.
func (o *observer) stop() times {
	o.cancel()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	return measure(o.notes)
}

// noticed reports whether the node was not Ready at some time after a fault had cut the target off, at most
// noticeWithin later. It does not count that nobody knows: then no pod is evicted.
func noticed(notes []note, fault string) bool {
	var since time.Time
	last := ready
	for _, n := range notes {
		switch n.what {
		case cut:
			if n.name != fault {
				continue
			}
			if since = n.at; last == unready {
				return true
			}
		case ready, unready, unknown:
			last = n.what
			if last == unready && !since.IsZero() && n.at.Sub(since) <= noticeWithin {
				return true
			}
		}
	}
	return since.IsZero() // The fault did not come about.
}

// measure returns the times of a round with one fault, and nothing for others.
func measure(notes []note) times {
	var (
		t                times
		begin, away, end time.Time
	)
	for _, n := range notes {
		switch {
		case n.what == began && !begin.IsZero():
			return times{}
		case n.what == began:
			begin, away, t.of = n.at, n.at, n.name
		case n.what == over:
			end = n.at
		case begin.IsZero():
		case n.what == cut:
			away = n.at
		case n.what == unready:
			first(&t.noticed, n.at.Sub(away))
		case n.what == leads:
			first(&t.takenOver, n.at.Sub(begin))
		case n.what == leadsThere:
			first(&t.takenOverThere, n.at.Sub(begin))
		case n.what == ready && !end.IsZero() && t.noticed > 0:
			t.back = n.at.Sub(end)
		}
	}
	return t
}

// first sets a time that was not measured before.
func first(measured *time.Duration, d time.Duration) {
	if *measured == 0 {
		*measured = d
	}
}
