package fit

import "k8s.io/apimachinery/pkg/types"

// queued is a pod that waits in a queue of the target: behind scheduling gates, for longer than admission takes.
type queued struct {
	namespace string
	demand    *Demand
}

// Queue notes that a pod that was placed waits in a queue of the target. From then on it takes no room, and Queues
// says that others would wait behind it.
func (l *Ledger) Queue(pod types.UID, namespace string) { l.setQueue(pod, namespace) }

// Unqueue notes that the pod does not wait in a queue any more. So it takes room again. It returns whether the pod
// waited.
func (l *Ledger) Unqueue(pod types.UID) bool { return l.setQueue(pod, "") }

// setQueue returns whether that has changed anything.
func (l *Ledger) setQueue(pod types.UID, namespace string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	unseen, ok := l.unseen[pod]
	if !ok || unseen.queue == namespace {
		return false
	}
	unseen.queue = namespace
	l.stale.Store(true)
	return true
}

// Queues says whether a pod would probably wait in a queue of the target, although the target may have room: a pod of
// the same namespace waits there that requests no more of anything.
func (l *Ledger) Queues(namespace string, d *Demand) bool {
	l.refresh()
	for _, q := range *l.queues.Load() {
		if q.namespace == namespace && d.AtLeast(q.demand) {
			return true
		}
	}
	return false
}

// listQueues must be called with the lock held, when the ledger is stale or has a new summary.
func (l *Ledger) listQueues() {
	queues := []queued{}
	for _, u := range l.unseen {
		if u.queue != "" {
			queues = append(queues, queued{u.queue, u.demand})
		}
	}
	l.queues.Store(&queues)
}

// AtLeast says whether a pod requests at least as much of everything as another one. Both list their requests in the
// order of the names.
func (d *Demand) AtLeast(other *Demand) bool {
	own := d.Quantities()
	for _, q := range other.Quantities() {
		for len(own) > 0 && own[0].Name < q.Name {
			own = own[1:]
		}
		if len(own) == 0 || own[0].Name != q.Name || own[0].Amount < q.Amount {
			return false
		}
	}
	return true
}
