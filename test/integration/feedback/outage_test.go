package feedback

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestEverythingIsComparedWhenATargetIsEngaged(t *testing.T) {
	c2 := newTarget(env.Namespace(t, nil, source, target), "c2")
	changed := createProxy(t, c2, "changed")
	report(t, place(t, changed, c2), corev1.PodRunning)
	chaperonless := createProxy(t, c2, "chaperonless")
	env.Delete(t, target, place(t, chaperonless, c2))
	vanished := createProxy(t, c2, "vanished")
	orphan := place(t, vanished, c2)
	env.Delete(t, source, vanished, force)
	deleted := createProxy(t, c2, "deleted")
	deletedChaperon := place(t, deleted, c2)
	env.Delete(t, source, deleted)

	c2.Engage(t, registry)

	waitForPhase(t, changed, corev1.PodRunning)
	env.WaitGone(t, source, chaperonless)
	waitForEnding(t, orphan, "")
	waitForEnding(t, deletedChaperon, "")
}

func TestNothingIsDoneInATargetThatIsLost(t *testing.T) {
	c2 := engaged(t)
	c3 := newTarget(c2.Key.Namespace, "c3")
	c3.Engage(t, registry)
	running := createProxy(t, c2, "running")
	runningChaperon := place(t, running, c2)
	evicted := createProxy(t, c2, "evicted")
	evictedChaperon := place(t, evicted, c2)
	forced := createProxy(t, c2, "forced")
	orphan := place(t, forced, c2)
	waitForWorkers(t, c2)

	c2.Lose()
	report(t, runningChaperon, corev1.PodRunning)
	env.Delete(t, source, evicted)
	env.Delete(t, source, forced, force)
	waitForWorkers(t, c3)
	waitForPhase(t, running, corev1.PodPending)
	expectKept(t, evictedChaperon)
	expectKept(t, orphan)

	c2.Engage(t, registry)
	waitForPhase(t, running, corev1.PodRunning)
	waitForEnding(t, orphan, "")
	waitForEnding(t, evictedChaperon, "")
	end(t, evictedChaperon)
	env.WaitGone(t, source, evicted)
}

func TestWithoutConfirmationNoProxyIsDeleted(t *testing.T) {
	c2 := newTarget(env.Namespace(t, nil, source, target), "c2")
	var setBack atomic.Bool
	asked := make(chan struct{}, 1)
	c2.Customize = func(e *engage.Target) {
		e.Confirms = func(context.Context) error {
			if !setBack.Load() {
				return nil
			}
			select {
			case asked <- struct{}{}:
			default:
			}
			return errors.New("the target was set back")
		}
	}
	c2.Engage(t, registry)
	proxy := createProxy(t, c2, "web")
	chaperon := place(t, proxy, c2)
	setBack.Store(true)
	env.Delete(t, target, chaperon)
	for range 2 { // It is asked again only if nothing was done after the first answer.
		select {
		case <-asked:
		case <-time.After(time.Minute):
			t.Fatal("nobody asks again whether the target was set back")
		}
	}
	if live := env.Get(t, source, proxy); live.DeletionTimestamp != nil {
		t.Error("the proxy was deleted, although nobody knows whether the PodChaperon was")
	}
	setBack.Store(false)
	env.WaitGone(t, source, proxy)
}

// hanging is the client of a target that takes requests and never answers.
type hanging struct {
	client.Client
	asked chan struct{}
}

func (h *hanging) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
	h.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestATargetThatHangsDelaysNoOther(t *testing.T) {
	const more = 50 // than there are workers
	c2 := newTarget(env.Namespace(t, nil, source, target), "c2")
	asked := make(chan struct{}, more)
	c2.Customize = func(e *engage.Target) { e.Client = &hanging{Client: e.Client, asked: asked} }
	c2.Engage(t, registry)
	c3 := newTarget(c2.Key.Namespace, "c3")
	c3.Engage(t, registry)
	for i := range more {
		proxy := createProxy(t, c2, "web-"+strconv.Itoa(i))
		place(t, proxy, c2)
		env.Delete(t, source, proxy)
	}
	waittest.Receive(t, "a request to the target that hangs", asked)
	waitForWorkers(t, c3)
}

func TestPodsOnVirtualNodesThatAreNoProxiesCanBeDeleted(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	virtual := env.VirtualNode(namespace + "-virtual")
	ordinary := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-ordinary"}}
	env.Create(t, source, virtual, ordinary)
	deletedOn := func(node *corev1.Node) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, "on-"+node.Name), Spec: env.PodSpec()}
		env.Create(t, source, pod)
		env.Bind(t, source, pod, node.Name)
		env.Delete(t, source, pod)
		return pod
	}
	running := deletedOn(ordinary)
	env.WaitGone(t, source, deletedOn(virtual))
	env.Get(t, source, running)
}

func TestFinalizersOfTheOldSystemAreRemoved(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	pod := env.Proxy(namespace, "old")
	pod.Finalizers = []string{"multicluster.admiralty.io/multiclusterForegroundDeletion", "example.com/somebody-elses"}
	env.Create(t, source, pod)
	env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
		if len(pod.Finalizers) != 1 || pod.Finalizers[0] != "example.com/somebody-elses" {
			return errors.New("the finalizers are still there")
		}
		return nil
	})
}
