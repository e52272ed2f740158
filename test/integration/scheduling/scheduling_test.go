package scheduling

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const long = time.Minute

func equal() map[string]string { return map[string]string{"c1": "100", "c2": "100"} }

// preferC1 makes c1 the target that is tried first.
func preferC1() map[string]string { return map[string]string{"c1": "100", "c2": "10"} }

func TestAPodIsBoundWhereItsOneDelegateIsScheduled(t *testing.T) {
	s := start(t, long, equal())
	pod := s.pod(t, "web", "1")
	where := bound(t, pod)
	for name := range s.targets {
		if got := len(s.chaperons(t, name)); got != where[name] {
			t.Errorf("%s has %d PodChaperons, and %d pods are bound there", name, got, where[name])
		}
	}
	env.Eventually(t, func(context.Context) error {
		if events := env.Events(t, source, pod); len(events) != 1 || events[0].Reason != "Scheduled" {
			return fmt.Errorf("events are %v, want one that says Scheduled", events)
		}
		return nil
	})
}

func TestARefusedPodGoesElsewhereAtOnce(t *testing.T) {
	s := start(t, long, preferC1())
	s.answer("c1", unschedulable)
	begin := time.Now()
	expectBound(t, s.pod(t, "web", "1"), "c2")
	t.Logf("took %s", time.Since(begin))
	env.ExpectEqual(t, "times that c1 was asked", int32(1), s.targets["c1"].created.Load())
	s.placed(t, "c1", 0)
}

func TestAPodGoesElsewhereOnlyWhenItsWithdrawnDelegateHasEnded(t *testing.T) {
	s := start(t, long, preferC1())
	s.answer("c1", unschedulable)
	c1 := s.targets["c1"]
	c1.slow.Store(true)
	pod := s.pod(t, "web", "1")
	var withdrawn *v1alpha1.PodChaperon
	env.Eventually(t, func(context.Context) error {
		if withdrawn = s.placed(t, "c1", 1); !asked(withdrawn) || !withdrawn.DeletionTimestamp.IsZero() {
			return fmt.Errorf("PodChaperon %s: asked to end %t, deletion timestamp %v, want only that it is asked",
				withdrawn.Name, asked(withdrawn), withdrawn.DeletionTimestamp)
		}
		return nil
	})
	bound(t, s.pod(t, "other", "1", onNode("c2"))) // The scheduler has not stopped.
	if got := len(s.chaperons(t, "c2")); got != 1 {
		t.Errorf("c2 has %d PodChaperons while the withdrawn delegate has not ended, want that of the other pod", got)
	}
	c1.release(t, withdrawn)
	expectBound(t, pod, "c2")
}

func TestATargetWithoutTheNamespaceIsLeftOut(t *testing.T) {
	s := start(t, long, preferC1())
	namespace := env.Namespace(t, env.Enabled(), source)
	pod := s.pod(t, "web", "1", func(pod *corev1.Pod) { pod.Namespace = namespace })
	env.Eventually(t, func(context.Context) error {
		want := fmt.Sprintf("0/2 clusters are available: c1, c2: refused: namespaces %q not found.", namespace)
		if message := messageOf(t, pod); strings.TrimSpace(message) != want {
			return fmt.Errorf("message is %q, want %q", message, want)
		}
		return nil
	})
}

func TestAPodOfANamespaceThatIsNotEnabledWaits(t *testing.T) {
	s := start(t, long, equal())
	namespace := env.Namespace(t, nil, source, cluster1, cluster2)
	pod := s.pod(t, "web", "1", func(pod *corev1.Pod) { pod.Namespace = namespace })
	if message := messageOf(t, pod); !strings.Contains(message, "namespace "+namespace+" is not enabled") {
		t.Errorf("message is %q", message)
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	env.Change(t, source, object, func(namespace *corev1.Namespace) { maps.Copy(namespace.Labels, env.Enabled()) })
	for target := range bound(t, pod) {
		env.Delete(t, s.targets[target].Cluster, s.chaperonOf(t, target, pod))
	}
}

func TestAPodThatFitsNowhereWaitsForRoom(t *testing.T) {
	s := start(t, long, map[string]string{"c1": "1500m", "c2": "1"})
	pod := s.pod(t, "big", "4")
	message := messageOf(t, pod)
	for _, want := range []string{
		"0/2 clusters are available",
		"c1: no node has 4 free CPUs (largest: 1.5)",
		"c2: no node has 4 free CPUs (largest: 1)",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not say %q", message, want)
		}
	}
	s.summarize(t, "c2", "4")
	begin := time.Now()
	expectBound(t, pod, "c2")
	t.Logf("took %s", time.Since(begin))
}

func TestTheEventOfAPodNamesTheTaintsThatKeepItAway(t *testing.T) {
	s := start(t, long, equal())
	s.stop()
	s.taint(t, "c1", v1alpha1.TaintSilent)
	s.taint(t, "c2", corev1.TaintNodeOutOfService)
	s.run(t, long)
	pod := s.pod(t, "web", "1", func(pod *corev1.Pod) { pod.Spec.Tolerations = nil })
	env.WaitForEvent(t, source, pod, "FailedScheduling", "0/2 clusters are available: c1: its manager is silent; "+
		"c2: its virtual node has the taint node.kubernetes.io/out-of-service, which the pod does not tolerate.")
	s.taint(t, "c2")
	expectBound(t, pod, "c2")
}

func TestEqualPodsSpreadEquallyOverEqualTargets(t *testing.T) {
	s := start(t, long, equal())
	if where := bound(t, s.burst(t, "small", 10, "10m")...); where["c1"] != 5 {
		t.Errorf("bound to %v, want 5 to each", where)
	}
	if where := bound(t, s.burst(t, "more", 90, "10m")...); where["c1"] != 45 {
		t.Errorf("bound to %v, want 45 to each", where)
	}
}

func TestANewLeaderFindsTheDelegate(t *testing.T) {
	s := start(t, long, preferC1())
	s.answer("c1", nil)
	pod := s.pod(t, "web", "1")
	before := s.placed(t, "c1", 1)
	s.stop()
	env.Get(t, source, pod)
	if len(pod.Status.Conditions) > 0 {
		t.Errorf("the leader that ended wrote %v", pod.Status.Conditions)
	}
	// The delegate counts against c1 for every pod but its own.
	s.summarize(t, "c1", "0")
	s.run(t, long)
	s.targets["c1"].write(t, before, running)
	expectBound(t, pod, "c1")
	if after := s.placed(t, "c1", 1); after.UID != before.UID {
		t.Error("the PodChaperon was created again")
	}
	s.placed(t, "c2", 0)
}

func TestTheDelegateOfADeletedPodIsWithdrawn(t *testing.T) {
	s := start(t, long, preferC1())
	s.answer("c1", nil)
	pod := s.pod(t, "web", "1")
	s.placed(t, "c1", 1)
	env.Delete(t, source, pod)
	s.placed(t, "c1", 0)
}

func TestASilentTargetIsGivenUpAfterTheTimeout(t *testing.T) {
	s := start(t, 3*time.Second, preferC1())
	s.answer("c1", nil)
	expectBound(t, s.pod(t, "web", "1"), "c2")
	s.placed(t, "c1", 0)
}

func TestNobodyWaitsForATargetThatIsLost(t *testing.T) {
	s := start(t, long, preferC1())
	s.targets["c1"].Lose()
	other := s.pod(t, "other", "1", onNode("c1"))
	if message := messageOf(t, other); !strings.Contains(message, "c1: not reachable") {
		t.Errorf("message %q does not say that c1 is not reachable", message)
	}
	expectBound(t, s.pod(t, "web", "1"), "c2")
	s.targets["c1"].engage(t, s.registry)
	bound(t, other)
}

func TestATargetThatSwallowsRequestsDoesNotSlowTheOther(t *testing.T) {
	s := start(t, long, equal())
	burst := func(name string) time.Duration {
		begin := time.Now()
		bound(t, s.burst(t, name, 50, "10m", onNode("c2"))...)
		return time.Since(begin)
	}
	before := burst("before")
	s.stop()
	s.targets["c1"].swallow()
	s.run(t, long)
	lost := s.burst(t, "lost", 50, "10m", onNode("c1"))
	if took := burst("found"); took > 2*before+5*time.Second { // A request that is swallowed lasts 10 s.
		t.Errorf("50 pods for c2 took %s, and %s when all targets answered", took, before)
	}
	for _, pod := range lost {
		env.Get(t, source, pod)
		if pod.Spec.NodeName != "" {
			t.Errorf("pod %s is bound to %s", pod.Name, pod.Spec.NodeName)
		}
	}
}

func TestABurstOfPodsIsBound(t *testing.T) {
	s := start(t, long, equal())
	begin := time.Now()
	bound(t, s.burst(t, "burst", 200, "10m")...)
	t.Logf("%.0f pods/s", 200/time.Since(begin).Seconds())
}
