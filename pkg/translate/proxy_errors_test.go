package translate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestProxyErrors(t *testing.T) {
	const path = "metadata.annotations[multicluster.admiralty.io/"
	for name, tc := range map[string]struct {
		annotations map[string]string
		change      func(*corev1.Pod)
		want        []string
	}{
		"an unknown field of the constraints": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: "nodeSelectr: {a: b}"},
			want: []string{
				path + `proxy-pod-scheduling-constraints]: Invalid value: "nodeSelectr: {a: b}": ` +
					`unknown field "nodeSelectr"`,
			},
		},
		"unknown fields inside constraints": {
			annotations: map[string]string{
				v1alpha1.AnnotationProxyConstraints: "affinity: {nodeAffinitty: {}}\ntolerations: [{kee: a}]",
			},
			want: []string{`unknown field "affinity.nodeAffinitty"`, `unknown field "tolerations[0].kee"`},
		},
		"constraints of a wrong type": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: "nodeSelector: 3"},
			want:        []string{path + `proxy-pod-scheduling-constraints]: Invalid value`, "nodeSelector"},
		},
		"constraints that are not YAML": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: "nodeSelector: {"},
			want:        []string{path + `proxy-pod-scheduling-constraints]: Invalid value`, "yaml"},
		},
		"constraints with a key twice": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: "nodeSelector: {a: b, a: c}"},
			want:        []string{path + `proxy-pod-scheduling-constraints]: Invalid value`, "already"},
		},
		"constraints that ask for other virtual nodes": {
			annotations: map[string]string{
				v1alpha1.AnnotationProxyConstraints: "nodeSelector: {virtual-kubelet.io/provider: azure}",
			},
			want: []string{
				path + `proxy-pod-scheduling-constraints].nodeSelector[virtual-kubelet.io/provider]: ` +
					`Unsupported value: "azure"`,
				`"admiralty"`,
			},
		},
		"a spec that asks for other virtual nodes": {
			annotations: map[string]string{v1alpha1.AnnotationUseSpecConstraints: ""},
			change: func(pod *corev1.Pod) {
				pod.Spec.NodeSelector = map[string]string{"virtual-kubelet.io/provider": "azure"}
			},
			want: []string{`spec.nodeSelector[virtual-kubelet.io/provider]: Unsupported value: "azure"`},
		},
		"an invalid regular expression": {
			annotations: map[string]string{v1alpha1.AnnotationNoPrefixLabelRegexp: "(app"},
			want:        []string{path + `no-prefix-label-regexp]: Invalid value: "(app": error parsing regexp`},
		},
		"an unknown identity": {
			annotations: map[string]string{v1alpha1.AnnotationPodIdentity: "Delegate"},
			want: []string{
				path + `pod-identity]: Unsupported value: "Delegate": supported values: "delegate", "proxy"`,
			},
		},
		"annotations too large to be carried twice": {
			annotations: map[string]string{"note": strings.Repeat("x", 128<<10)},
			change:      func(pod *corev1.Pod) { refer(&pod.Spec, "metadata.annotations") },
			want: []string{
				`metadata.annotations: Forbidden: the pod refers to metadata.labels or metadata.annotations`,
				`may have 262144: shorten the annotations, or refer to single ones`,
			},
		},
		"a node named by the user": {
			change: func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" },
			want: []string{
				`spec.nodeName: Forbidden: `, "remove spec.nodeName, or the annotation multicluster.admiralty.io/elect",
			},
		},
		"a pod of a DaemonSet": {
			change: func(pod *corev1.Pod) {
				owner := metav1.OwnerReference{Kind: "DaemonSet", Name: "agent", Controller: ptr.To(true)}
				pod.OwnerReferences = []metav1.OwnerReference{owner}
			},
			want: []string{
				`metadata.ownerReferences: Forbidden: a DaemonSet names the node`,
				"create the DaemonSet in the target clusters",
			},
		},
		"a group that is scheduled together": {
			change: func(pod *corev1.Pod) { pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{} },
			want:   []string{`spec.schedulingGroup: Forbidden: elected pods are placed one by one`},
		},
		"our annotation with an unknown field beside our scheduler": {
			annotations: map[string]string{v1alpha1.AnnotationOriginalConstraints: `{"nodeName":"n1"}`},
			change:      func(pod *corev1.Pod) { pod.Spec.SchedulerName = "admiralty-proxy" },
			want:        []string{path + `original-constraints]: Invalid value`, `unknown field "nodeName"`},
		},
		"our annotation empty beside our scheduler": {
			annotations: map[string]string{v1alpha1.AnnotationOriginalConstraints: ""},
			change:      func(pod *corev1.Pod) { pod.Spec.SchedulerName = "admiralty-proxy" },
			want:        []string{path + `original-constraints]: Invalid value`, "must not be empty"},
		},
		"a pod that is not elected": {
			change: func(pod *corev1.Pod) { pod.Annotations = nil },
			want:   []string{path + `elect]: Required value`},
		},
		"several faults at once": {
			annotations: map[string]string{
				v1alpha1.AnnotationProxyConstraints: "a: b", v1alpha1.AnnotationNoPrefixLabelRegexp: "(",
			},
			change: func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" },
			want:   []string{"spec.nodeName", "proxy-pod-scheduling-constraints", "no-prefix-label-regexp"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := elected(tc.annotations, nil)
			if tc.change != nil {
				tc.change(pod)
			}
			proxy, err := translate.Proxy(pod)
			if err == nil {
				t.Fatalf("Proxy = %v, want an error", proxy)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}
