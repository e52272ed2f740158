package scheduling

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/utils/clock"
)

// gather is how long changes of a target that come in great numbers are gathered before pods are woken.
const gather = 50 * time.Millisecond

// waker puts waiting pods back into the scheduler's queue. Before the scheduler has started no pod waits.
type waker struct {
	clock clock.WithDelayedExecution
	// offer invites pods that wait in other targets.
	offer func(*target)
	// queue of the running scheduler; nil until it starts.
	queue atomic.Pointer[running]
}

type running struct {
	pods   queue.SchedulingQueue
	logger klog.Logger
}

// started has the queue of the running scheduler woken from now on.
func (w *waker) started(pods queue.SchedulingQueue, logger klog.Logger) {
	w.queue.Store(&running{pods, logger})
}

// event reconsiders the rejected pods that an event can help.
func (w *waker) event(resource fwk.EventResource, object any) {
	if q := w.queue.Load(); q != nil {
		event := fwk.ClusterEvent{Resource: resource, ActionType: fwk.Update}
		q.pods.MoveAllToActiveOrBackoffQueue(q.logger, event, nil, object, nil)
	}
}

// target reconsiders the rejected pods that a change of a target can help, and those that wait in other targets.
func (w *waker) target(t *target) {
	w.event(targetChange, t)
	w.offer(t)
}

// targetSoon does the same once for all changes of a short while.
func (w *waker) targetSoon(t *target) {
	if !t.waking.Swap(true) {
		w.clock.AfterFunc(gather, func() {
			t.waking.Store(false)
			w.target(t)
		})
	}
}

// wakeNext reconsiders the pod that waits for the end of earlier ones of its name, if there is one.
func (p *plugin) wakeNext(key types.NamespacedName) {
	if next := p.placer.Delegates.TakeNext(key); next != "" {
		p.waker.pod(key, next)
	}
}

// pod reconsiders one pod at once, if it was rejected or is about to be.
func (w *waker) pod(key types.NamespacedName, uid types.UID) {
	if q := w.queue.Load(); q != nil {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}}
		q.pods.Activate(q.logger, map[string]*corev1.Pod{key.String(): pod})
	}
}
