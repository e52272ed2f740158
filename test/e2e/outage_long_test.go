//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// notReadyWithin is the default grace period of nodes, 50 seconds, and some time for a busy machine.
const notReadyWithin = time.Minute

// readyWithin is how long a target may have to go on answering before its node is Ready again, if it was lost several
// times in ten minutes, as in these tests, and some time for a busy machine.
const readyWithin = time.Minute + 30*time.Second

// running waits until exactly so many pods of the web server are ready on the virtual node. Pods being deleted do not
// count.
func (w *world) running(t *testing.T, app, node string, count int, limit time.Duration) {
	t.Helper()
	within(t, limit, fmt.Sprintf("%d pods of %s ready on %s", count, app, node), func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := w.c1.List(ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{"app": app}); err != nil {
			return err
		}
		found := map[string]int{}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.DeletionTimestamp == nil && ready(pod) {
				found[pod.Spec.NodeName]++
			}
		}
		if found[node] != count {
			return fmt.Errorf("they are on %v", found)
		}
		return nil
	})
}

func (w *world) isReady(ctx context.Context, name string) error {
	pod := &corev1.Pod{}
	if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pod); err != nil {
		return err
	}
	if !ready(pod) {
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	}
	return nil
}

func TestADeadTargetIsTreatedLikeADeadNode(t *testing.T) {
	w := setUp(t)
	delegates := w.logDelegates(t)
	web := w.webServer(8)
	impatient(&web.Spec.Template, 5)
	create(t, w.c1, web)
	create(t, w.c1, w.pod("patient", inTarget("c2", quick(podTemplate("patient")))))
	create(t, w.c1, w.pod("forced", inTarget("c2", quick(podTemplate("forced")))))
	before := w.quiet(t, 10)
	if before.byNode["admiralty-c2"] < 3 {
		t.Fatalf("c2 has too few pods to try this with: %v", before.byNode)
	}

	heal := w.cutOffC2(t)
	w.kubectl(t, "delete", "pod", "forced", "--grace-period=0", "--force")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
	for what, message := range map[string]string{
		"target": w.says(t, "c2", v1alpha1.ReasonUnreachable),
		"node":   w.nodeReadyMessage(t, "admiralty-c2"),
	} {
		if !strings.Contains(message, "no answer from https://") {
			t.Errorf("the %s does not say what is wrong: %s", what, message)
		}
	}
	create(t, w.c1, w.pod("new", quick(podTemplate("new"))))
	w.running(t, "new", "admiralty-c1", 1, 15*time.Second)
	w.running(t, "web", "admiralty-c1", 8, patience) // Those of c2 were evicted.
	if w.reaches(t, "patient", corev1.PodRunning).DeletionTimestamp != nil {
		t.Error("a pod that asked for nothing was evicted at once")
	}
	_, there, err := w.pods(t.Context(), w.c2)
	if err != nil {
		t.Fatal(err)
	}
	if len(there) != before.byNode["admiralty-c2"] {
		t.Errorf("%d delegates go on in c2, of %d", len(there), before.byNode["admiralty-c2"])
	}

	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	after := w.quiet(t, 10)
	if after.byNode["admiralty-c1"] != 9 {
		t.Errorf("after the partition: %v by virtual node", after.byNode)
	}
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
	w.takesPods(t, "admiralty-c2")
	w.kubectl(t, "rollout", "restart", "deployment/web")
	w.kubectl(t, "rollout", "status", "deployment/web", "--timeout=2m")
	if p := w.quiet(t, 10); p.byNode["admiralty-c2"] < 3 {
		t.Errorf("pods do not return to c2: %v by virtual node", p.byNode)
	}
}

// Pods may be sent to a dead target as long as it is not known to be dead. None may be stuck there.
func TestPodsCreatedInTheMomentOfAPartitionRunElsewhere(t *testing.T) {
	w := setUp(t)
	delegates := w.logDelegates(t)
	w.cutOffC2(t)
	create(t, w.c1, w.webServer(8))
	w.running(t, "web", "admiralty-c1", 8, patience)
	clusters(t.Context(), t, "heal", "c2")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	w.quiet(t, 8)
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
}

func TestAPodOfAStatefulSetWaitsForItsDeadTarget(t *testing.T) {
	w := setUp(t)
	template := inTarget("c2", quick(podTemplate("db")))
	impatient(&template, 5)
	create(t, w.c1, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(
				int32(1),
			),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: template,
		},
	})
	before := w.quiet(t, 1)
	heal := w.cutOffC2(t)
	within(t, patience, "db-0 to be evicted", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "db-0"}, pod); err != nil {
			return err
		}
		if pod.DeletionTimestamp == nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	holds(t, 15*time.Second, "db-0 is to wait for c2", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "db-0"}, pod); err != nil {
			return err
		}
		if pod.UID != before.proxies[0].UID {
			return fmt.Errorf("there is another db-0")
		}
		return nil
	})
	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	if after := w.quiet(
		t,
		1,
	); after.proxies[0].UID == before.proxies[0].UID ||
		after.proxies[0].DeletionTimestamp != nil {
		t.Error("db-0 was not replaced after the partition")
	}
}

func TestALostDelegateIsMadeAgainWhileTheSourceIsAway(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.pod("solitary", inTarget("c2", quick(podTemplate("solitary")))))
	before := w.quiet(t, 1)
	lost := before.delegates["c2"][0]

	heal := w.cutOffC2(t)
	if err := w.c2.Delete(t.Context(), &lost); err != nil {
		t.Fatal(err)
	}
	within(t, 3*time.Minute, "the delegate to run again", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := w.c2.Get(ctx, client.ObjectKeyFromObject(&lost), pod); err != nil {
			return err
		}
		if pod.UID == lost.UID || !ready(pod) {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	if after := w.quiet(t, 1); after.proxies[0].UID != before.proxies[0].UID {
		t.Error("the proxy was replaced")
	}
}

func TestAnAPIServerThatGoesAndComesLosesAndDoublesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		cluster string
		away    func(t *testing.T, w *world)
	}{
		"the target's API server, for a moment": {cluster: "c2", away: func(*testing.T, *world) {}},
		"the target's API server, for long": {cluster: "c2", away: func(t *testing.T, w *world) {
			t.Helper()
			w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
		}},
		"the source's API server, for a moment": {cluster: "c1", away: func(*testing.T, *world) {}},
		"the source's API server, for long": {cluster: "c1", away: func(t *testing.T, w *world) {
			t.Helper()
			_, before, err := w.pods(t.Context(), w.c2)
			if err != nil || len(before) == 0 {
				t.Fatalf("%d delegates in c2: %v", len(before), err)
			}
			holds(t, 30*time.Second, "the delegates in c2 go on", func(ctx context.Context) error {
				_, delegates, err := w.pods(ctx, w.c2)
				if err == nil && len(delegates) != len(before) {
					err = fmt.Errorf("there are %d of %d", len(delegates), len(before))
				}
				return err
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			create(t, w.c1, w.webServer(6))
			create(t, w.c1, w.pod("there", inTarget("c2", quick(podTemplate("there")))))
			before := w.quiet(t, 7)
			start := w.stopAPIServer(t, test.cluster)
			test.away(t, w)
			start()
			within(t, patience, "a pod to be accepted again", func(ctx context.Context) error {
				return w.c1.Create(ctx, w.pod("new", quick(podTemplate("new"))))
			})
			within(t, patience, "the new pod to run", func(ctx context.Context) error {
				return w.isReady(ctx, "new")
			})
			managers(t.Context(), t, w.c1, 2)
			w.kubectl(t, "delete", "pod", "new")
			same(t, before, w.quiet(t, 7))
			w.kubectl(t, "delete", "pod", "there")
			w.kubectl(t, "scale", "deployment/web", "--replicas=10")
			w.quiet(t, 10)
			w.kubectl(t, "scale", "deployment/web", "--replicas=0")
			w.nothingLeft(t)
		})
	}
}

func TestASilentManagerEvictsNobody(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(6))
	create(t, w.c1, w.pod("alone", inTarget("c2", quick(podTemplate("alone")))))
	before := w.quiet(t, 7)

	t.Cleanup(func() { scaleManager(context.WithoutCancel(t.Context()), t, w.c1, 2) })
	scaleManager(t.Context(), t, w.c1, 0)
	for _, node := range []string{"admiralty-c1", "admiralty-c2"} {
		w.nodeBecomes(t, node, corev1.ConditionUnknown, 90*time.Second)
	}
	w.kubectl(t, "delete", "pod", "alone", "--wait=false")
	holds(t, 30*time.Second, "nothing is to be evicted", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		for _, pod := range p.proxies {
			if pod.DeletionTimestamp != nil && pod.Name != "alone" {
				return fmt.Errorf("%s is being deleted", pod.Name)
			}
		}
		if got, want := len(p.uids()), len(before.uids()); got != want {
			return fmt.Errorf("there are %d proxies and delegates, were %d", got, want)
		}
		return nil
	})

	scaleManager(t.Context(), t, w.c1, 2)
	for _, node := range []string{"admiralty-c1", "admiralty-c2"} {
		w.nodeBecomes(t, node, corev1.ConditionTrue, readyWithin)
	}
	after := w.quiet(t, 6)
	for uid, name := range after.uids() {
		if before.uids()[uid] == "" {
			t.Errorf("pod %s is new", name)
		}
	}
}
