package podcache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// referring returns a pod that refers to Secrets of these names, as the API server returns it.
func referring(scheduler string, annotations map[string]string, secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, RestartPolicy: corev1.RestartPolicyAlways},
	}
	for _, name := range secrets {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
		}})
	}
	return pod
}

func TestNeedsOfTransformedPods(t *testing.T) {
	secret := func(name string) needs.Need {
		return needs.Need{Ref: needs.Ref{Resource: needs.Secrets, Name: name}}
	}
	faked := map[string]string{annotationNeeds: "secrets/forged"}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []needs.Need
	}{
		"a proxy keeps its needs": {
			referring(v1alpha1.SchedulerName, nil, "a", "b"), []needs.Need{secret("a"), secret("b")},
		},
		"a proxy without references has no needs": {referring(v1alpha1.SchedulerName, nil), nil},
		"a forged annotation of a proxy is replaced": {
			referring(v1alpha1.SchedulerName, faked, "a"), []needs.Need{secret("a")},
		},
		"a forged annotation of a proxy without references is removed": {
			referring(v1alpha1.SchedulerName, faked), nil,
		},
		"objects that targets have of their own are no needs": {
			referring(v1alpha1.SchedulerName, map[string]string{v1alpha1.AnnotationUseExisting: "secrets/a"}, "a", "b"),
			[]needs.Need{secret("b")},
		},
		"a pod that is no proxy keeps no needs": {referring("default-scheduler", nil, "a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, time := range []string{"first", "second"} {
				if diff := cmp.Diff(test.want, Needs(transform(t, test.pod))); diff != "" {
					t.Errorf("the %s time (-want +got):\n%s", time, diff)
				}
			}
		})
	}
}
