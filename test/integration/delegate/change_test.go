package delegate

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// revise plays a source: it says that the PodChaperon was changed so often.
func revise(number int64) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Annotations[v1alpha1.AnnotationRevision] = translate.Revision{Number: number, Fingerprint: "f"}.String()
	}
}

// waitForChanges waits until the PodChaperon says whether its delegate has the changes of its revision, and why not.
func waitForChanges(t *testing.T, c *v1alpha1.PodChaperon, status corev1.ConditionStatus, says string) {
	t.Helper()
	env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		said := translate.PodCondition(c.Status.Conditions, v1alpha1.ConditionChanges)
		if said == nil || said.Status != status || !strings.Contains(said.Message, says) ||
			said.ObservedGeneration != translate.RevisionOf(c).Number {
			return fmt.Errorf("condition %v, want %s for revision %v and the words %q",
				said, status, translate.RevisionOf(c), says)
		}
		return nil
	})
}

func TestChangesOfAPodChaperonReachItsDelegate(t *testing.T) {
	c := create(t, newNamespace(t, nil), revise(0), func(c *v1alpha1.PodChaperon) {
		c.Labels["old"], c.Annotations["old"] = "1", "1"
	})
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)
	env.Change(t, target, pod, func(pod *corev1.Pod) {
		pod.Labels["theirs"], pod.Annotations["theirs"] = "1", "1"
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, toleration("theirs"))
	})

	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(1)(c)
		delete(c.Labels, "old")
		delete(c.Annotations, "old")
		c.Labels["app"], c.Labels["new"], c.Labels["theirs"], c.Annotations["note"] = "changed", "1", "2", "changed"
		c.Labels[v1alpha1.LabelParentUID] = "another"
		c.Spec.Containers[0].Image = "changed"
		c.Spec.Tolerations = append(c.Spec.Tolerations, toleration("ours"))
		c.Spec.ActiveDeadlineSeconds = ptr.To(int64(77))
	})
	waitForChanges(t, c, corev1.ConditionFalse, "stay: labels/theirs")

	got := env.Get(t, target, pod)
	for key, want := range map[string]string{
		"app": "changed", "new": "1", "theirs": "1", "old": "", v1alpha1.LabelParentUID: "uid",
	} {
		if got.Labels[key] != want {
			t.Errorf("label %s: %q, want %q", key, got.Labels[key], want)
		}
	}
	for key, want := range map[string]string{"note": "changed", "theirs": "1", "old": ""} {
		if got.Annotations[key] != want {
			t.Errorf("annotation %s: %q, want %q", key, got.Annotations[key], want)
		}
	}
	if got.Spec.Containers[0].Image != "changed" || ptr.Deref(got.Spec.ActiveDeadlineSeconds, 0) != 77 ||
		!tolerates(got, "ours") || !tolerates(got, "theirs") {
		t.Errorf("spec %+v", got.Spec)
	}

	env.Change(t, target, pod, func(pod *corev1.Pod) { delete(pod.Labels, "theirs") })
	waitForChanges(t, c, corev1.ConditionTrue, "")
	if theirs := env.Get(t, target, pod).Labels["theirs"]; theirs != "2" {
		t.Errorf("the target gave its label up, and the delegate has %q", theirs)
	}
}

func toleration(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
}

func tolerates(pod *corev1.Pod, key string) bool {
	for _, t := range pod.Spec.Tolerations {
		if t.Key == key {
			return true
		}
	}
	return false
}

func TestARefusedChangeKeepsNoOtherBack(t *testing.T) {
	c := create(t, newNamespace(t, nil), revise(0), func(c *v1alpha1.PodChaperon) {
		c.Spec.ActiveDeadlineSeconds = ptr.To(int64(50))
	})
	pod := waitForDelegate(t, c)
	runDelegate(t, c, pod)

	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(1)(c)
		c.Spec.ActiveDeadlineSeconds = ptr.To(int64(60))
		c.Labels["quarantine"] = "yes"
	})
	waitForChanges(t, c, corev1.ConditionFalse, "activeDeadlineSeconds")
	if got := env.Get(t, target, pod); got.Labels["quarantine"] != "yes" || *got.Spec.ActiveDeadlineSeconds != 50 {
		t.Errorf("labels %v, deadline %d", got.Labels, *got.Spec.ActiveDeadlineSeconds)
	}
	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(2)(c)
		c.Spec.ActiveDeadlineSeconds = ptr.To(int64(40))
	})
	waitForChanges(t, c, corev1.ConditionTrue, "")
	if got := env.Get(t, target, pod); *got.Spec.ActiveDeadlineSeconds != 40 {
		t.Errorf("deadline %d", *got.Spec.ActiveDeadlineSeconds)
	}
}

// Some resizes the target's API server refuses: those that its node or a quota has no room for.
func TestADelegateIsResizedAndDebugged(t *testing.T) {
	cpu := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)},
		}
	}
	c := create(t, newNamespace(t, nil), revise(0), func(c *v1alpha1.PodChaperon) {
		c.Spec.Containers[0].Resources = cpu("1")
	})
	pod := waitForDelegate(t, c)
	node := &corev1.Node{ObjectMeta: env.Meta("", c.Namespace)} // API servers ask what the node has.
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	node.Status.Allocatable = node.Status.Capacity
	env.Create(t, target, node)
	env.Bind(t, target, pod, node.Name)

	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(1)(c)
		c.Spec.Containers[0].Resources = cpu("2")
		c.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "debug", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy: corev1.PullAlways,
			},
		}}
	})
	waitForChanges(t, c, corev1.ConditionTrue, "")
	got := env.Get(t, target, pod)
	if got.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 || len(got.Spec.EphemeralContainers) != 1 {
		t.Errorf("spec %+v", got.Spec)
	}

	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(2)(c)
		c.Spec.Containers[0].Resources = cpu("8") // The node has four.
	})
	waitForChanges(t, c, corev1.ConditionFalse, "enough allocatable")
	quota := &corev1.ResourceQuota{ObjectMeta: env.Meta(c.Namespace, "quota")}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("2500m")}
	env.Create(t, target, quota)
	env.ChangeStatus(t, target, quota, func(q *corev1.ResourceQuota) { // No controller does that here.
		q.Status.Hard = q.Spec.Hard
		q.Status.Used = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse("2")}
	})
	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(3)(c)
		c.Spec.Containers[0].Resources = cpu("3")
	})
	waitForChanges(t, c, corev1.ConditionFalse, "exceeded quota")
	if got := env.Get(t, target, pod); got.Spec.Containers[0].Resources.Requests.Cpu().Value() != 2 {
		t.Errorf("the delegate has %s after refusals", got.Spec.Containers[0].Resources.Requests.Cpu())
	}
	env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
		revise(4)(c)
		c.Spec.Containers[0].Resources = cpu("2500m")
	})
	waitForChanges(t, c, corev1.ConditionTrue, "")
}
