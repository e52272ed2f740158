package scheduling

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const long = time.Minute

func equal() map[string]string { return map[string]string{"c1": "100", "c2": "100"} }

// preferC1 makes c1 the target that is tried first.
func preferC1() map[string]string { return map[string]string{"c1": "100", "c2": "10"} }

func TestAPodIsBoundWhereItsOneDelegateIsScheduled(t *testing.T) {
	e := start(t, long, equal())
	pod := e.pod("web", "1")
	where := e.bound(pod)
	for name := range e.targets {
		if got := len(e.chaperons(name)); got != where[name] {
			t.Errorf("%s has %d PodChaperons, and %d pods are bound there", name, got, where[name])
		}
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		events := &eventsv1.EventList{}
		if err := clusters.source.Client.List(ctx, events, client.InNamespace(e.namespace)); err != nil {
			return err
		}
		if len(events.Items) != 1 || events.Items[0].Reason != "Scheduled" {
			return fmt.Errorf("events are %v, want one that says Scheduled", events.Items)
		}
		return nil
	})
}

func TestARefusedPodGoesElsewhereAtOnce(t *testing.T) {
	e := start(t, long, preferC1())
	e.answer("c1", unschedulable)
	begin := time.Now()
	pod := e.pod("web", "1")
	if where := e.bound(pod); where["c2"] != 1 {
		t.Fatalf("bound to %v, want c2", where)
	}
	t.Logf("took %s", time.Since(begin))
	if e.targets["c1"].created.Load() != 1 {
		t.Errorf("c1 was asked %d times, want once", e.targets["c1"].created.Load())
	}
	e.placed("c1", 0)
}

func TestAPodGoesElsewhereOnlyWhenItsWithdrawnDelegateHasEnded(t *testing.T) {
	e := start(t, long, preferC1())
	e.answer("c1", unschedulable)
	c1 := e.targets["c1"]
	c1.slow.Store(true)
	pod := e.pod("web", "1")
	var withdrawn *v1alpha1.PodChaperon
	apiserver.Eventually(t, func(context.Context) error {
		if withdrawn = e.placed("c1", 1); withdrawn.DeletionTimestamp.IsZero() {
			return fmt.Errorf("PodChaperon %s is not being deleted", withdrawn.Name)
		}
		return nil
	})
	e.bound(e.pod("other", "1", onNode("c2"))) // The scheduler has not stopped.
	if got := len(e.chaperons("c2")); got != 1 {
		t.Errorf("c2 has %d PodChaperons while the withdrawn delegate has not ended, want that of the other pod", got)
	}
	c1.release(t, withdrawn)
	if where := e.bound(pod); where["c2"] != 1 {
		t.Errorf("bound to %v, want c2", where)
	}
}

func TestATargetWithoutTheNamespaceIsLeftOut(t *testing.T) {
	e := start(t, long, preferC1())
	namespace := clusters.source.Namespace(t, enabled())
	inNamespace := func(pod *corev1.Pod) { pod.Namespace = namespace }
	pod := e.pod("web", "1", inNamespace)
	apiserver.Eventually(t, func(context.Context) error {
		want := fmt.Sprintf("0/2 clusters are available: c1, c2: refused: namespaces %q not found.", namespace)
		if message := e.message(pod); strings.TrimSpace(message) != want {
			return fmt.Errorf("message is %q, want %q", message, want)
		}
		return nil
	})
}

func TestAPodOfANamespaceThatIsNotEnabledWaits(t *testing.T) {
	e := start(t, long, equal())
	namespace := clusters.source.Namespace(t, nil)
	for _, cluster := range []*apiserver.Cluster{clusters.c1, clusters.c2} {
		must(t, cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	}
	forged := e.pod("web", "1", func(pod *corev1.Pod) { pod.Namespace = namespace })
	if message := e.message(forged); !strings.Contains(message, "namespace "+namespace+" is not enabled") {
		t.Errorf("message is %q", message)
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelEnabledNamespace, v1alpha1.LabelEnabledNamespaceValue)
	must(t, clusters.source.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(label))))
	for target := range e.bound(forged) {
		must(t, e.targets[target].cluster.Client.DeleteAllOf(t.Context(), &v1alpha1.PodChaperon{}, client.InNamespace(namespace)))
	}
}

func TestAPodThatFitsNowhereWaitsForRoom(t *testing.T) {
	e := start(t, long, map[string]string{"c1": "100", "c2": "100"})
	e.summarize("c1", "1500m")
	e.summarize("c2", "1")
	pod := e.pod("big", "4")
	message := e.message(pod)
	for _, want := range []string{
		"0/2 clusters are available",
		"c1: no node has 4 free CPUs (largest: 1.5)",
		"c2: no node has 4 free CPUs (largest: 1)",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not say %q", message, want)
		}
	}
	e.summarize("c2", "4")
	begin := time.Now()
	if where := e.bound(pod); where["c2"] != 1 {
		t.Errorf("bound to %v, want c2", where)
	}
	t.Logf("took %s", time.Since(begin))
}

func TestEqualPodsSpreadEquallyOverEqualTargets(t *testing.T) {
	e := start(t, long, equal())
	if where := e.bound(e.burst("small", 10, "10m")...); where["c1"] != 5 {
		t.Errorf("bound to %v, want 5 to each", where)
	}
	if where := e.bound(e.burst("more", 90, "10m")...); where["c1"] != 45 {
		t.Errorf("bound to %v, want 45 to each", where)
	}
}

func TestANewLeaderFindsTheDelegate(t *testing.T) {
	e := start(t, long, preferC1())
	e.answer("c1", nil)
	pod := e.pod("web", "1")
	before := e.placed("c1", 1)
	e.stop()
	must(t, clusters.source.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if len(pod.Status.Conditions) > 0 {
		t.Errorf("the leader that ended wrote %v", pod.Status.Conditions)
	}
	// What was there counts against c1 for every pod but its own.
	e.summarize("c1", "0")
	e.run(long)
	e.targets["c1"].say(t, before, running)
	if where := e.bound(pod); where["c1"] != 1 {
		t.Errorf("bound to %v, want c1", where)
	}
	if after := e.placed("c1", 1); after.UID != before.UID {
		t.Error("the PodChaperon was made again")
	}
	e.placed("c2", 0)
}

func TestTheDelegateOfADeletedPodIsWithdrawn(t *testing.T) {
	e := start(t, long, preferC1())
	e.answer("c1", nil)
	pod := e.pod("web", "1")
	e.placed("c1", 1)
	must(t, clusters.source.Client.Delete(t.Context(), pod))
	e.placed("c1", 0)
}

func TestASilentTargetIsGivenUpAfterTheTimeout(t *testing.T) {
	e := start(t, 500*time.Millisecond, preferC1())
	e.answer("c1", nil)
	if where := e.bound(e.pod("web", "1")); where["c2"] != 1 {
		t.Errorf("bound to %v, want c2", where)
	}
	e.placed("c1", 0)
}

func TestATargetOutOfReachIsNotWaitedFor(t *testing.T) {
	e := start(t, long, preferC1())
	e.registry.SetReachable(e.targets["c1"].Target, false)
	other := e.pod("other", "1", onNode("c1"))
	if message := e.message(other); !strings.Contains(message, "c1: not reachable") {
		t.Errorf("message %q does not say that c1 is not reachable", message)
	}
	if where := e.bound(e.pod("web", "1")); where["c2"] != 1 {
		t.Errorf("bound to %v, want c2", where)
	}
	e.registry.SetReachable(e.targets["c1"].Target, true)
	e.bound(other)
}

func TestABlackHoleDoesNotSlowTheOthers(t *testing.T) {
	e := start(t, long, equal())
	e.stop()
	e.targets["c1"].Target = swallowing(t, e.targets["c1"].Target)
	e.run(long)
	lost := e.burst("lost", 50, "10m", onNode("c1"))
	begin := time.Now()
	e.bound(e.burst("found", 50, "10m", onNode("c2"))...)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("50 pods for c2 took %s", took)
	}
	for _, pod := range lost {
		must(t, clusters.source.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		if pod.Spec.NodeName != "" {
			t.Errorf("pod %s is bound to %s", pod.Name, pod.Spec.NodeName)
		}
	}
}

func TestABurstIsFast(t *testing.T) {
	e := start(t, long, equal())
	begin := time.Now()
	pods := e.burst("burst", 200, "10m")
	e.bound(pods...)
	t.Logf("%.0f pods/s", 200/time.Since(begin).Seconds())
}

func (e *environment) burst(name string, count int, cpus string, change ...func(*corev1.Pod)) []*corev1.Pod {
	e.t.Helper()
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = e.pod(fmt.Sprintf("%s-%d", name, i), cpus, change...)
	}
	return pods
}
