package feedback

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// forcedGrace is the grace period, in seconds, of the delegate of a proxy that is deleted by force. Kubelets give the
// containers of such a pod as much.
const forcedGrace = "1"

// forcedFor is how long a proxy that was deleted by force is remembered. Its delegate is asked to end well before.
const forcedFor = time.Minute

// forced remembers the proxies that somebody deleted by force while their targets could be reached. A kubelet that
// cannot be reached misses that, too: the containers have the pod's own grace period then. It is safe for concurrent
// use.
type forced struct {
	clock clock.PassiveClock

	mu sync.Mutex // guards at
	at map[types.UID]time.Time
}

// byForce says whether a bound pod that names our scheduler, as it was last seen, is deleted by force, and its
// containers run.
func byForce(proxy *corev1.Pod) bool {
	return proxy.Spec.SchedulerName == v1alpha1.SchedulerName && proxy.Spec.NodeName != "" &&
		proxy.DeletionTimestamp != nil && ptr.Deref(proxy.DeletionGracePeriodSeconds, 1) == 0 &&
		!translate.Finished(proxy.Status.Phase)
}

func (f *forced) note(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	for old, at := range f.at {
		if now.Sub(at) > forcedFor {
			delete(f.at, old)
		}
	}
	if f.at == nil {
		f.at = map[types.UID]time.Time{}
	}
	f.at[uid] = now
}

// was says whether a proxy that is gone was deleted by force a moment ago.
func (f *forced) was(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, noted := f.at[uid]
	return noted && f.clock.Since(at) <= forcedFor
}
