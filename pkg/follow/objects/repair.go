package objects

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

const (
	// repairAfter is the least time between a write of a copy and its repair: a kubelet may not have seen it yet.
	repairAfter = 10 * time.Second
	// repairAgainAfter is the least time between two repairs. A delegate that cannot start for another reason says so
	// again and again.
	repairAgainAfter = time.Minute
)

// Repair writes again what the pod refers to, in the target where its delegate cannot start: somebody may have deleted
// a copy there. A copy that has just been written, or was repaired less than a minute ago, is left alone. Repair does
// not wait for the writes.
func (f *Follower) Repair(pod *corev1.Pod, target *engage.Target) {
	l, engaged := f.links.Get(target)
	if !engaged {
		return
	}
	for _, o := range usageOf(pod).objects() {
		if l.doubt(o) {
			l.queue.Add(o)
		}
	}
}

// doubt forgets which version a copy has, unless it is too early. It says whether it did so.
func (l *link) doubt(o objectKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, now := l.written[o], l.follower.options.Clock.Now()
	if r.version == "" || now.Sub(r.written) < repairAfter || now.Sub(r.repaired) < repairAgainAfter {
		return false
	}
	r.version, r.repaired = "", now
	l.written[o] = r
	return true
}
