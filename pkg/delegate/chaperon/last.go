package chaperon

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// lasts remembers how delegates were when they went. A kubelet writes the last status of a pod just before it confirms
// the pod's deletion, so the cache may show the end without anybody having read that status.
type lasts struct {
	mu    sync.Mutex // guards the fields below
	byKey map[types.NamespacedName]last
	// watched says that note is called for each delegate that goes.
	watched bool
}

type last struct {
	pod *corev1.Pod
	// shown says that the PodChaperon shows the pod's status, or never will: the pod was not its delegate.
	shown bool
}

func (l *lasts) watch() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = true
}

// note remembers a delegate that has gone.
func (l *lasts) note(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[types.NamespacedName]last{}
	}
	l.byKey[client.ObjectKeyFromObject(pod)] = last{pod: pod}
}

// of returns the PodChaperon's delegate that has gone, or nil if the PodChaperon shows its status. awaited says that
// note has yet to be called for a delegate that the cache had.
func (l *lasts) of(chaperon *v1alpha1.PodChaperon, cached bool) (pod *corev1.Pod, awaited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept, ok := l.byKey[client.ObjectKeyFromObject(chaperon)]
	switch {
	case !ok:
		return nil, cached && l.watched
	case kept.shown:
		return nil, false
	case !metav1.IsControlledBy(kept.pod, chaperon):
		l.byKey[client.ObjectKeyFromObject(chaperon)] = last{shown: true} // Nobody needs the pod.
		return nil, false
	}
	return kept.pod, false
}

func (l *lasts) show(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byKey[key] = last{shown: true}
}

// exists forgets earlier delegates. The one that was read may have gone since: that stays remembered.
func (l *lasts) exists(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := client.ObjectKeyFromObject(pod)
	if kept := l.byKey[key]; kept.pod == nil || kept.pod.UID != pod.UID {
		delete(l.byKey, key)
	}
}

func (l *lasts) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byKey, key)
}

// catchUp gives the PodChaperon the last status of a delegate that has gone, as if no event had come together with
// another one. It returns the PodChaperon as it is then. later says that an event follows.
func (r *Reconciler) catchUp(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, silent bool,
) (now *v1alpha1.PodChaperon, later bool, err error) {
	pod, awaited := r.lasts.of(chaperon, translate.ToEnd(chaperon) && r.written.ending(chaperon))
	if pod == nil {
		return chaperon, awaited, nil
	}
	d := decide(chaperon, pod, silent, r.clock.Now())
	if d.status != nil {
		written, err := r.writeStatus(ctx, chaperon, d.status)
		if err != nil || !written {
			return chaperon, true, err
		}
		chaperon = r.written.newest(chaperon)
	}
	r.lasts.show(client.ObjectKeyFromObject(chaperon))
	return chaperon, false, nil
}

// delegateEvents enqueues the PodChaperons of delegates. It notes how those were that go.
type delegateEvents struct {
	handler.EventHandler

	gone func(*corev1.Pod)
}

func (r *Reconciler) delegateEvents(mgr manager.Manager) handler.EventHandler {
	r.lasts.watch()
	owner := handler.EnqueueRequestForOwner(
		mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.PodChaperon{}, handler.OnlyControllerOwner())
	return delegateEvents{owner, r.lasts.note}
}

// Delete notes the delegate before its PodChaperon is reconciled. Without a PodChaperon of the pod's name, this
// reconciliation forgets the pod.
func (d delegateEvents) Delete(
	ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	if pod, ok := e.Object.(*corev1.Pod); ok && namesChaperon(pod) {
		d.gone(pod)
	}
	d.EventHandler.Delete(ctx, e, q)
}
