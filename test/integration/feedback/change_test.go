package feedback

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// waitForRevision waits until the PodChaperon was changed so often, for the proxy as it is now.
func waitForRevision(t *testing.T, proxy *corev1.Pod, c *v1alpha1.PodChaperon, number int64) *v1alpha1.PodChaperon {
	t.Helper()
	want := translate.Revision{Number: number, Fingerprint: translate.Fingerprint(env.Get(t, source, proxy))}
	return env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		if got := translate.RevisionOf(c); got != want {
			return fmt.Errorf("revision %v, want %v", got, want)
		}
		return nil
	})
}

// reportChanges plays the target's manager: it says whether the delegate has the changes.
func reportChanges(t *testing.T, c *v1alpha1.PodChaperon, status corev1.ConditionStatus, message string) {
	t.Helper()
	env.ChangeStatus(t, target, c, func(c *v1alpha1.PodChaperon) {
		c.Status.ObservedGeneration = 1
		c.Status.Conditions = []corev1.PodCondition{{
			Type: v1alpha1.ConditionChanges, Status: status, Message: message, Reason: v1alpha1.ReasonChangesRefused,
			ObservedGeneration: translate.RevisionOf(c).Number,
		}}
	})
}

// waitForCondition waits until the proxy says why its delegate lacks a change, or nothing if the words are empty.
func waitForCondition(t *testing.T, proxy *corev1.Pod, says string) {
	t.Helper()
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		c := translate.PodCondition(pod.Status.Conditions, v1alpha1.ConditionChanges)
		if (c == nil) != (says == "") || c != nil && !strings.Contains(c.Message, says) {
			return fmt.Errorf("condition %v, want the words %q", c, says)
		}
		return nil
	})
}

func TestChangesOfAProxyReachItsPodChaperon(t *testing.T) {
	c2 := engaged(t)
	c2.SetChanges(true)
	proxy := createProxy(t, c2, "web", func(pod *corev1.Pod) { pod.Labels = map[string]string{"old": "1"} })
	c := createChaperon(t, proxy, c2)
	env.Change(t, source, proxy, func(pod *corev1.Pod) { pod.Annotations["note"] = "while it was placed" })
	env.Bind(t, source, proxy, c2.NodeName)
	waitForRevision(t, proxy, c, 1)

	env.Change(t, source, proxy, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{"app": "web"}
		pod.Spec.Containers[0].Image = "changed"
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "gpu", Operator: "Exists"})
	})
	got := waitForRevision(t, proxy, c, 2)
	if got.Labels["multicluster.admiralty.io/app"] != "web" || got.Labels["multicluster.admiralty.io/old"] != "" ||
		got.Labels[v1alpha1.LabelParentUID] != string(proxy.UID) || got.Annotations["note"] != "while it was placed" ||
		got.Annotations[v1alpha1.AnnotationProof] != c.Annotations[v1alpha1.AnnotationProof] {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	if got.Spec.Containers[0].Image != "changed" || len(got.Spec.Tolerations) != 1 || got.Spec.NodeName != "" {
		t.Errorf("spec %+v", got.Spec)
	}
	report(t, c, corev1.PodRunning)
	reportChanges(t, c, corev1.ConditionTrue, "")
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		if pod.Generation < 2 || pod.Status.ObservedGeneration != pod.Generation {
			return fmt.Errorf("observed %d of generation %d", pod.Status.ObservedGeneration, pod.Generation)
		}
		return nil
	})
}

func TestAProxySaysWhichChangesItsDelegateLacks(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "web")
	env.Change(t, source, proxy, func(pod *corev1.Pod) { pod.Annotations["note"] = "1" })
	waitForRevision(t, proxy, c, 1)
	report(t, c, corev1.PodRunning)
	waitForCondition(t, proxy, "upgrade it")

	reportChanges(t, c, corev1.ConditionFalse, "the quota is exceeded")
	waitForCondition(t, proxy, "the quota is exceeded")
	env.Eventually(t, func(context.Context) error {
		for _, event := range env.Events(t, source, proxy) {
			if event.Reason == feedback.ReasonChangeNotApplied &&
				strings.Contains(event.Note, "the quota is exceeded") {
				return nil
			}
		}
		return fmt.Errorf("no event says so")
	})
	reportChanges(t, c, corev1.ConditionTrue, "")
	waitForCondition(t, proxy, "")
}

func TestThePodChaperonOfAnEarlierVersionGetsTheChanges(t *testing.T) {
	c2 := engaged(t)
	unchanged, changed := createProxy(t, c2, "unchanged"), createProxy(t, c2, "changed")
	earlier := func(c *v1alpha1.PodChaperon) { delete(c.Annotations, v1alpha1.AnnotationRevision) }
	one, other := createChaperon(t, unchanged, c2, earlier), createChaperon(t, changed, c2, earlier)
	env.Change(t, source, changed, func(pod *corev1.Pod) { pod.Annotations["note"] = "1" })
	env.Bind(t, source, unchanged, c2.NodeName)
	env.Bind(t, source, changed, c2.NodeName)
	waitForRevision(t, unchanged, one, 0)
	waitForRevision(t, changed, other, 1)
}

func TestAnAbsentTargetGetsTheLastState(t *testing.T) {
	namespace := env.Namespace(t, nil, source, target)
	c2 := newTarget(namespace, "c2")
	proxy := createProxy(t, c2, "web")
	c := place(t, proxy, c2)
	for _, value := range []string{"1", "2", "3"} {
		env.Change(t, source, proxy, func(pod *corev1.Pod) { pod.Annotations["note"] = value })
	}
	c2.Engage(t, registry)
	if got := waitForRevision(t, proxy, c, 1); got.Annotations["note"] != "3" {
		t.Errorf("annotations %v", got.Annotations)
	}
}
