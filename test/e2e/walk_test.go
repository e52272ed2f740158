//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func intOrString(port int) intstr.IntOrString { return intstr.FromInt(port) }

// spread fails unless the two virtual nodes have equally many of the pods, or one has one more.
func (w *world) spread(t *testing.T, p *placement) {
	t.Helper()
	if d := p.byNode["admiralty-c1"] - p.byNode["admiralty-c2"]; d < -1 || d > 1 {
		t.Errorf("pods per virtual node: %v, want equal parts", p.byNode)
		w.explainAll(t, p)
	}
}

// explainAll logs why the pods are where they are.
func (w *world) explainAll(t *testing.T, p *placement) {
	t.Helper()
	for i := range p.proxies {
		t.Log(w.explain(t, p.proxies[i].Name))
	}
}

// takePods waits until nothing keeps new pods away from the virtual nodes. A target that was away, or slow, must answer
// well for a while.
func (w *world) takePods(t *testing.T) {
	t.Helper()
	w.takesPods(t, "admiralty-c1")
	w.takesPods(t, "admiralty-c2")
}

// takesPods waits until nothing keeps new pods away from a node. A target that was away must answer well for a while.
func (w *world) takesPods(t *testing.T, name string) {
	t.Helper()
	eventually(t, "node "+name+" without taints of outages", func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := w.c1.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key != v1alpha1.LabelNodeProvider {
				return fmt.Errorf("it has the taint %s", taint.Key)
			}
		}
		return nil
	})
}

func TestTenReplicasRunInBothClusters(t *testing.T) {
	w := setUp(t)
	w.takePods(t)
	create(t, w.c1, w.webServer(10))
	w.spread(t, w.quiet(t, 10))
}

func TestVirtualNodesAreReady(t *testing.T) {
	w := setUp(t)
	out := w.kubectl(t, "get", "nodes", "-l", "virtual-kubelet.io/provider=admiralty", "--no-headers")
	for _, name := range []string{"admiralty-c1", "admiralty-c2"} {
		if !strings.Contains(out, name) {
			t.Errorf("kubectl get nodes has no %s:\n%s", name, out)
		}
	}
	if strings.Contains(out, "NotReady") {
		t.Errorf("a virtual node is not Ready:\n%s", out)
	}
}

func TestDrainHonoursTheBudgetAndUncordonLetsPodsBack(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
	w.takePods(t)
	create(t, w.c1, w.webServer(10))
	w.spread(t, w.quiet(t, 10))
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
	})

	fewest := w.sampleReady(t)
	out := w.kubectl(t, "drain", "admiralty-c2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=4m",
		"--pod-selector", "app=web")
	if !strings.Contains(out, "disruption budget") {
		t.Errorf("the drain never had to wait for the budget:\n%s", out)
	}
	after := w.quiet(t, 10)
	if got := fewest(); got < 9 {
		t.Errorf("%d pods were ready at the worst moment, the budget allows no fewer than 9", got)
	}
	if len(after.delegates["c2"]) != 0 || after.byNode["admiralty-c1"] != 10 {
		t.Errorf("after the drain: %v by virtual node, %d delegates in c2", after.byNode, len(after.delegates["c2"]))
	}
	if out := w.kubectl(t, "get", "node", "admiralty-c2"); !strings.Contains(out, "Ready,SchedulingDisabled") {
		t.Errorf("admiralty-c2 after the drain:\n%s", out)
	}

	w.kubectl(t, "uncordon", "admiralty-c2")
	w.kubectl(t, "rollout", "restart", "deployment/web")
	w.kubectl(t, "rollout", "status", "deployment/web", "--timeout=2m")
	if p := w.quiet(t, 10); p.byNode["admiralty-c2"] == 0 {
		t.Errorf("after the uncordon no pod came back to c2: %v", p.byNode)
	}
}

// sampleReady counts the ready pods of the web server at every event from now on. The function returned ends this and
// returns the lowest count. A pod being deleted does not count.
func (w *world) sampleReady(t *testing.T) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	events, err := w.c1.Watch(
		ctx,
		&corev1.PodList{},
		client.InNamespace(w.namespace),
		client.MatchingLabels{"app": "web"},
	)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		isReady := map[string]bool{}
		fewest, full := 10, false
		for event := range events.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			isReady[pod.Name] = event.Type != watch.Deleted && pod.DeletionTimestamp == nil && ready(pod)
			count := 0
			for _, r := range isReady {
				if r {
					count++
				}
			}
			full = full || count == 10
			if full {
				fewest = min(fewest, count)
			}
		}
		if !full {
			fewest = 0
		}
		done <- fewest
	}()
	return func() int {
		cancel()
		events.Stop()
		return <-done
	}
}

func TestCordonKeepsNewPodsAway(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
	})

	w.kubectl(t, "cordon", "admiralty-c2")
	w.kubectl(t, "scale", "deployment/web", "--replicas=8")
	cordoned := w.quiet(t, 8)
	if cordoned.byNode["admiralty-c2"] != before.byNode["admiralty-c2"] {
		t.Errorf("cordoned: %v by virtual node, was %v", cordoned.byNode, before.byNode)
	}

	w.kubectl(t, "uncordon", "admiralty-c2")
	w.kubectl(t, "scale", "deployment/web", "--replicas=12")
	if p := w.quiet(t, 12); p.byNode["admiralty-c2"] <= cordoned.byNode["admiralty-c2"] {
		t.Errorf("uncordoned: %v by virtual node, was %v", p.byNode, cordoned.byNode)
	}
}

func TestTheSourceClusterIsATargetToo(t *testing.T) {
	w := setUp(t)
	template := podTemplate("self")
	template.Annotations["multicluster.admiralty.io/proxy-pod-scheduling-constraints"] =
		"nodeSelector: {multicluster.admiralty.io/cluster-target-name: c1}"
	create(t, w.c1, w.pod("self", template))
	proxy := w.reaches(t, "self", corev1.PodRunning)
	where, delegate := w.delegateOf(t, proxy)
	if where != w.c1 || delegate.Spec.NodeName == proxy.Spec.NodeName {
		t.Errorf("the delegate runs in %s on node %s, want a real node of c1", where.name, delegate.Spec.NodeName)
	}
}

func TestAPodThatIsNotElectedStaysAsItIs(t *testing.T) {
	w := setUp(t)
	template := podTemplate("plain")
	template.Annotations = nil
	create(t, w.c1, w.pod("plain", template))
	if pod := w.reaches(t, "plain", corev1.PodRunning); strings.HasPrefix(pod.Spec.NodeName, "admiralty-") {
		t.Errorf("the pod went to %s", pod.Spec.NodeName)
	}
}

func TestBadAnnotationsAreRefusedAtAdmission(t *testing.T) {
	w := setUp(t)
	for name, test := range map[string]struct{ key, value, want string }{
		"an unknown field": {
			"multicluster.admiralty.io/proxy-pod-scheduling-constraints", "nodeSelectr: {a: b}", "nodeSelectr",
		},
		"an invalid pattern": {"multicluster.admiralty.io/no-prefix-label-regexp", "(", "no-prefix-label-regexp"},
	} {
		t.Run(name, func(t *testing.T) {
			template := podTemplate("bad")
			template.Annotations[test.key] = test.value
			err := w.c1.Create(t.Context(), w.pod("bad", template))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.key) {
				t.Errorf("creating the pod: got %v, want an error with %q and %q", err, test.key, test.want)
			}
		})
	}
}

func TestADeletedDelegateIsReplacedByItsController(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(2))
	before := w.quiet(t, 2)
	victim := before.proxies[0]
	where, delegate := w.delegateOf(t, &victim)
	if err := where.Delete(t.Context(), delegate); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the proxy of the deleted delegate to go", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		for _, proxy := range p.proxies {
			if proxy.UID == victim.UID {
				return fmt.Errorf("proxy %s is still there", proxy.Name)
			}
		}
		return nil
	})
	w.quiet(t, 2)
}
