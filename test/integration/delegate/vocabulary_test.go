package delegate

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// namespace has the service account that a controller would make.
func namespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	name := target.Namespace(t, labels)
	must(t, target.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}))
	return name
}

func spec() corev1.PodSpec {
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		Containers:    []corev1.Container{{Name: "web", Image: "web"}},
	}
}

func create(t *testing.T, namespace string, changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	t.Helper()
	c := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web-abcde",
			Labels:      map[string]string{v1alpha1.LabelParentUID: "uid", v1alpha1.LabelParentClusterID: "source", "app": "web"},
			Annotations: map[string]string{"note": "kept"},
		},
		Spec: spec(),
	}
	for _, change := range changes {
		change(c)
	}
	must(t, target.Client.Create(t.Context(), c))
	return c
}

func eventually(t *testing.T, c *v1alpha1.PodChaperon, check func(*v1alpha1.PodChaperon) error) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		got := &v1alpha1.PodChaperon{}
		if err := target.Client.Get(ctx, client.ObjectKeyFromObject(c), got); err != nil {
			return err
		}
		return check(got)
	})
}

func eventuallyPod(t *testing.T, pod *corev1.Pod, check func(*corev1.Pod) error) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		got := &corev1.Pod{}
		if err := target.Client.Get(ctx, client.ObjectKeyFromObject(pod), got); err != nil {
			return err
		}
		return check(got)
	})
}

func eventualDelegate(t *testing.T, c *v1alpha1.PodChaperon) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	apiserver.Eventually(t, func(ctx context.Context) error {
		return target.Client.Get(ctx, client.ObjectKeyFromObject(c), pod)
	})
	return pod
}

func bind(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
	must(t, target.Client.SubResource("binding").Create(t.Context(), pod, binding))
}

// runDelegate does what scheduler and kubelet do, and waits until the PodChaperon shows it.
func runDelegate(t *testing.T, c *v1alpha1.PodChaperon, pod *corev1.Pod) {
	t.Helper()
	bind(t, pod)
	setStatus(t, pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodRunning })
	eventually(t, c, func(c *v1alpha1.PodChaperon) error { return hasPhase(c, corev1.PodRunning) })
}

func setStatus(t *testing.T, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	t.Helper()
	must(t, target.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	before := pod.DeepCopy()
	change(&pod.Status)
	must(t, target.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before)))
}

// confirmDeletion does what a kubelet does once the containers have ended.
func confirmDeletion(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	must(t, target.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}))
	apiserver.Eventually(t, func(ctx context.Context) error {
		if err := target.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("getting the delegate: %w, want NotFound", err)
		}
		return nil
	})
}

func annotate(t *testing.T, c *v1alpha1.PodChaperon, grace string) {
	t.Helper()
	must(t, target.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	before := c.DeepCopy()
	c.Annotations[v1alpha1.AnnotationDeletionGracePeriod] = grace
	must(t, target.Client.Patch(t.Context(), c, client.MergeFrom(before)))
}

func delegateIs(reason string) func(*v1alpha1.PodChaperon) error {
	return func(c *v1alpha1.PodChaperon) error {
		return hasCondition(c, v1alpha1.ConditionDelegate, corev1.ConditionFalse, reason)
	}
}

func hasCondition(c *v1alpha1.PodChaperon, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) error {
	for _, condition := range c.Status.Conditions {
		if condition.Type == kind && condition.Status == status && condition.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("conditions %v lack %s=%s/%s", c.Status.Conditions, kind, status, reason)
}

func hasPhase(c *v1alpha1.PodChaperon, phase corev1.PodPhase) error {
	if c.Status.Phase != phase {
		return fmt.Errorf("phase %q, want %q", c.Status.Phase, phase)
	}
	return nil
}

func quantity(value string) resource.Quantity { return resource.MustParse(value) }
