//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// slots is an extended resource that no node has unless a test gives it some.
const slots corev1.ResourceName = "example.com/slots"

func withSlots(template corev1.PodTemplateSpec, count int64) corev1.PodTemplateSpec {
	list := corev1.ResourceList{slots: *resource.NewQuantity(count, resource.DecimalSI)}
	template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	return template
}

// giveSlots gives a cluster's real node so many slots until the test ends, as a device plugin or an autoscaler's new
// node would.
func giveSlots(t *testing.T, c *cluster, count int) {
	t.Helper()
	node := realNode(t, c)
	set := func(ctx context.Context, value any) {
		t.Helper()
		patch, err := json.Marshal(
			map[string]any{"status": map[string]any{"capacity": map[corev1.ResourceName]any{slots: value},
				"allocatable": map[corev1.ResourceName]any{slots: value}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Status().Patch(
			ctx,
			node.DeepCopy(),
			client.RawPatch("application/merge-patch+json", patch),
		); err != nil {
			t.Fatalf("patching node %s of %s: %v", node.Name, c.name, err)
		}
	}
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), nil) })
	set(t.Context(), fmt.Sprint(count))
}

// policy sets fields of a ClusterTarget's spec, as JSON, until the test ends.
func (w *world) policy(t *testing.T, name, fields string) {
	t.Helper()
	patch := func(ctx context.Context, spec string) {
		t.Helper()
		target := &v1alpha1.ClusterTarget{}
		target.Name = name
		if err := w.c1.Patch(
			ctx,
			target,
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`)),
		); err != nil {
			t.Fatalf("patching ClusterTarget %s: %v", name, err)
		}
	}
	t.Cleanup(func() {
		patch(
			context.WithoutCancel(t.Context()),
			`{"weight":null,"placementTimeout":null,"queueingTimeout":null,"scaleUp":null}`,
		)
	})
	patch(t.Context(), fields)
}

// pending waits until the condition of a pending pod contains these words.
func (w *world) pending(t *testing.T, name string, words ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("pod %s to say %q", name, words), func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, pod); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && containsAll(c.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	})
}

func containsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// TestATargetScalesUpFromZero has no node with the resource in any cluster. One target declares that it can add such
// nodes.
func TestATargetScalesUpFromZero(t *testing.T) {
	w := setUp(t)
	template := withSlots(podTemplate("gpu"), 1)
	create(t, w.c1, w.pod("gpu", template))
	w.pending(t, "gpu", "c1, c2: no node has 1 free example.com/slots (largest: 0)")

	w.policy(
		t,
		"c2",
		`{"scaleUp":{"nodeClasses":[{"allocatable":{"cpu":"8","memory":"8Gi","example.com/slots":"4"}}]}}`,
	)
	eventually(t, "a delegate to be pending in c2, for its autoscaler", func(ctx context.Context) error {
		_, delegates, err := w.pods(ctx, w.c2)
		if err != nil {
			return err
		}
		if len(delegates) != 1 || !hasCondition(&delegates[0], corev1.PodScheduled, corev1.ConditionFalse) {
			return fmt.Errorf("there are %d delegates", len(delegates))
		}
		return nil
	})
	w.pending(t, "gpu", "Trying c2, which can add nodes")
	if out := w.explain(t, "gpu"); !containsAll(out, []string{"c2", "grow"}) {
		t.Errorf("kubectl multicluster explain does not tell of the trial:\n%s", out)
	}
	giveSlots(t, w.c2, 1)
	if proxy := w.reaches(t, "gpu", corev1.PodRunning); proxy.Spec.NodeName != "admiralty-c2" {
		t.Errorf("the pod went to %s", proxy.Spec.NodeName)
	}
	if chaperons := w.chaperonsIn(t, w.c1); len(chaperons) > 0 {
		t.Errorf("c1 has %d PodChaperons", len(chaperons))
	}
}

func (w *world) chaperonsIn(t *testing.T, c *cluster) []v1alpha1.PodChaperon {
	t.Helper()
	list := &v1alpha1.PodChaperonList{}
	if err := c.List(t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// explain runs kubectl multicluster explain as a user does.
func (w *world) explain(t *testing.T, pod string) string {
	t.Helper()
	out, err := run(t.Context(), "kubectl-multicluster", "explain", "pod", pod, "--context", "c1", "-n", w.namespace)
	if err != nil {
		t.Fatalf("kubectl multicluster explain pod %s: %v\n%s", pod, err, out)
	}
	return out
}

// TestAPodThatPassesOneClusterByForAnotherSaysWhy has one cluster refuse a pod for which its summary has room.
func TestAPodThatPassesOneClusterByForAnotherSaysWhy(t *testing.T) {
	w := setUp(t)
	w.policy(t, "c2", `{"weight":10000}`) // so that it is tried first
	create(t, w.c2, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: w.namespace},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	})
	eventually(t, "the quota to be in force", func(ctx context.Context) error {
		quota := &corev1.ResourceQuota{}
		if err := w.c2.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "none"}, quota); err != nil {
			return err
		}
		if len(quota.Status.Hard) == 0 {
			return errors.New("its status is empty")
		}
		return nil
	})
	create(t, w.c1, w.pod("web", podTemplate("web")))
	if proxy := w.reaches(t, "web", corev1.PodRunning); proxy.Spec.NodeName != "admiralty-c1" {
		t.Errorf("the pod went to %s", proxy.Spec.NodeName)
	}
	if out := w.explain(t, "web"); !containsAll(out, []string{"admiralty-c1", "exceeded quota: none"}) {
		t.Errorf("kubectl multicluster explain does not tell what c2 answered:\n%s", out)
	}
}

// TestAGangThatNeedsBothClustersStartsAsAWhole has exactly as much room as the gang needs, and other pods that compete
// for this room.
func TestAGangThatNeedsBothClustersStartsAsAWhole(t *testing.T) {
	w := setUp(t)
	giveSlots(t, w.c1, 3)
	giveSlots(t, w.c2, 3)
	job := w.job() // runs until it is deleted
	job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = new(int32(6)), new(int32(6))
	job.Spec.Template = withSlots(job.Spec.Template, 1)
	create(t, w.c1, job)
	eventually(t, "all six pods to run at once", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		running := 0
		for i := range p.proxies {
			if p.proxies[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if running != 6 || p.byNode["admiralty-c1"] != 3 || p.byNode["admiralty-c2"] != 3 {
			return fmt.Errorf("%d run: %v", running, p.byNode)
		}
		return nil
	})
}
