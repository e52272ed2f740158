//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// realNode returns the node of a cluster that runs containers.
func realNode(t *testing.T, c *cluster) *corev1.Node {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := c.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Labels[v1alpha1.LabelNodeProvider] == "" && node.Labels["type"] != "kwok" {
			return &node
		}
	}
	t.Fatalf("%s has no real node", c.name)
	return nil
}

// freeCPU returns the CPU of the cluster's real node that no pod requests.
func freeCPU(t *testing.T, c *cluster) resource.Quantity {
	t.Helper()
	node := realNode(t, c)
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods); err != nil {
		t.Fatal(err)
	}
	free := node.Status.Allocatable[corev1.ResourceCPU]
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != node.Name || pod.Status.Phase == corev1.PodSucceeded ||
			pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, container := range pod.Spec.Containers {
			free.Sub(container.Resources.Requests[corev1.ResourceCPU])
		}
	}
	return free
}

func withCPU(template corev1.PodTemplateSpec, milli int64) corev1.PodTemplateSpec {
	template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI),
	}
	return template
}

func TestAPodThatFitsOnlyInC2GoesThere(t *testing.T) {
	w := setUp(t)
	free := freeCPU(t, w.c1)
	filler := withCPU(podTemplate("filler"), free.MilliValue()-100)
	filler.Annotations = nil
	create(t, w.c1, w.pod("filler", filler))
	w.reaches(t, "filler", corev1.PodRunning)

	for i := range 3 {
		create(t, w.c1, w.pod(fmt.Sprintf("big-%d", i), withCPU(podTemplate("big"), 200)))
	}
	for i := range 3 {
		pod := w.reaches(t, fmt.Sprintf("big-%d", i), corev1.PodRunning)
		if pod.Spec.NodeName != "admiralty-c2" {
			t.Errorf("pod %s went to %s", pod.Name, pod.Spec.NodeName)
		}
	}
}

func TestAPodThatFitsNowhereSaysWhyAndRunsWhenItFits(t *testing.T) {
	w := setUp(t)
	fillers := map[*cluster]*corev1.Pod{}
	for _, c := range w.all() {
		free := freeCPU(t, c)
		template := withCPU(podTemplate("filler"), free.MilliValue()-100)
		template.Annotations = nil
		template.Spec.TerminationGracePeriodSeconds = new(int64(1))
		fillers[c] = w.pod("filler", template)
		create(t, c, fillers[c])
		eventually(t, "the filler of "+c.name+" to run", func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(fillers[c]), fillers[c]); err != nil {
				return err
			}
			if fillers[c].Status.Phase != corev1.PodRunning {
				return fmt.Errorf("it is %s", fillers[c].Status.Phase)
			}
			return nil
		})
	}
	create(t, w.c1, w.pod("patient", withCPU(podTemplate("patient"), 200)))
	eventually(t, "the pod to say why it is pending", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "patient"}, pod); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
				strings.Contains(strings.ToLower(c.Message), "cpu") {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	})
	if err := w.c2.Delete(t.Context(), fillers[w.c2]); err != nil {
		t.Fatal(err)
	}
	if pod := w.reaches(t, "patient", corev1.PodRunning); pod.Spec.NodeName != "admiralty-c2" {
		t.Errorf("the pod went to %s, want admiralty-c2, where there is room again", pod.Spec.NodeName)
	}
}

func TestConstraintsChooseTheTargetsNodes(t *testing.T) {
	w := setUp(t)
	node := realNode(t, w.c2)
	label := w.namespace
	patchNode(
		t,
		w.c2,
		node,
		func(n *corev1.Node) { n.Labels[label] = "yes" },
		func(n *corev1.Node) { delete(n.Labels, label) },
	)

	for name, mutate := range map[string]func(*corev1.PodSpec){
		"selector": func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{label: "yes"} },
		"affinity": func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: label, Operator: corev1.NodeSelectorOpExists},
						},
					}},
				},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := podTemplate(name)
			mutate(&template.Spec)
			create(t, w.c1, w.pod(name, template))
			if proxy := w.reaches(t, name, corev1.PodRunning); proxy.Spec.NodeName != "admiralty-c2" {
				t.Errorf("the pod went to %s", proxy.Spec.NodeName)
			}
		})
	}
}

func TestTolerationsReachTheTargetsNodes(t *testing.T) {
	w := setUp(t)
	node := realNode(t, w.c2)
	taint := corev1.Taint{Key: "e2e", Value: w.namespace, Effect: corev1.TaintEffectNoSchedule}
	patchNode(t, w.c2, node,
		func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taint) },
		func(n *corev1.Node) {
			for i := range n.Spec.Taints {
				if n.Spec.Taints[i].Key == taint.Key {
					n.Spec.Taints = append(n.Spec.Taints[:i], n.Spec.Taints[i+1:]...)
					return
				}
			}
		})

	intolerant := podTemplate("intolerant")
	for i := range 2 {
		create(t, w.c1, w.pod(fmt.Sprintf("intolerant-%d", i), intolerant))
	}
	tolerant := inTarget("c2", podTemplate("tolerant"))
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: "e2e", Operator: corev1.TolerationOpExists}}
	create(t, w.c1, w.pod("tolerant", tolerant))

	for i := range 2 {
		if proxy := w.reaches(
			t,
			fmt.Sprintf("intolerant-%d", i),
			corev1.PodRunning,
		); proxy.Spec.NodeName != "admiralty-c1" {
			t.Errorf("pod %s, which does not tolerate c2's taint, went to %s", proxy.Name, proxy.Spec.NodeName)
		}
	}
	if proxy := w.reaches(t, "tolerant", corev1.PodRunning); proxy.Spec.NodeName != "admiralty-c2" {
		t.Errorf("the pod that tolerates c2's taint went to %s", proxy.Spec.NodeName)
	}
}

func patchNode(t *testing.T, c *cluster, node *corev1.Node, change, undo func(*corev1.Node)) {
	t.Helper()
	apply := func(ctx context.Context, mutate func(*corev1.Node)) error {
		current := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(node), current); err != nil {
			return err
		}
		before := current.DeepCopy()
		mutate(current)
		return c.Patch(ctx, current, client.MergeFrom(before))
	}
	if err := apply(t.Context(), change); err != nil {
		t.Fatalf("patching node %s: %v", node.Name, err)
	}
	t.Cleanup(func() {
		if err := apply(context.WithoutCancel(t.Context()), undo); err != nil {
			t.Errorf("patching node %s back: %v", node.Name, err)
		}
	})
}

func TestARefusedPodLandsElsewhere(t *testing.T) {
	for name, refuse := range map[string]func(t *testing.T, w *world){
		"by a quota": func(t *testing.T, w *world) {
			t.Helper()
			create(t, w.c2, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: w.namespace},
				Spec: corev1.ResourceQuotaSpec{
					Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
				},
			})
			quota := &corev1.ResourceQuota{}
			eventually(t, "the quota to be in force", func(ctx context.Context) error {
				if err := w.c2.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "none"}, quota); err != nil {
					return err
				}
				if _, ok := quota.Status.Hard[corev1.ResourcePods]; !ok {
					return fmt.Errorf("its status is empty")
				}
				return nil
			})
		},
		"by PodSecurity": func(t *testing.T, w *world) {
			t.Helper()
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
			patch := client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
			if err := w.c2.Patch(t.Context(), ns, patch); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			refuse(t, w)
			create(t, w.c1, w.webServer(4))
			p := w.quiet(t, 4)
			if p.byNode["admiralty-c1"] != 4 {
				t.Errorf("pods per virtual node: %v, want all in c1", p.byNode)
			}
			chaperons := &v1alpha1.PodChaperonList{}
			if err := w.c2.List(t.Context(), chaperons, client.InNamespace(w.namespace)); err != nil {
				t.Fatal(err)
			}
			if len(chaperons.Items) != 0 {
				t.Errorf("c2 still has %d PodChaperons", len(chaperons.Items))
			}
		})
	}
}
