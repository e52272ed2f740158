package translate_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var (
	onVirtualNodes = map[string]string{"virtual-kubelet.io/provider": "admiralty"}
	ofProvider     = corev1.Toleration{
		Key: "virtual-kubelet.io/provider", Operator: "Equal", Value: "admiralty", Effect: "NoSchedule",
	}
	ofNetwork      = corev1.Toleration{Key: "node.kubernetes.io/network-unavailable", Operator: "Exists"}
	gpuToleration  = corev1.Toleration{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}
	zoneToleration = corev1.Toleration{Key: "zone", Operator: "Exists"}
	gpuNodes       = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: "In", Values: []string{"a100"}}},
	}}}
	gpuAffinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: gpuNodes,
	}}
	apart = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{
			TopologyKey:   "kubernetes.io/hostname",
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}}
	together = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
	}}
	byZone = corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	byRegion = corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "region", WhenUnsatisfiable: "ScheduleAnyway"}
)

func notReady(seconds *int64) corev1.Toleration {
	return corev1.Toleration{
		Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: seconds,
	}
}

func unreachable(seconds *int64) corev1.Toleration {
	return corev1.Toleration{
		Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: seconds,
	}
}

// elected returns a pod as it arrives at the webhook, with the tolerations that API servers add by default.
func elected(annotations map[string]string, change func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: "0123",
			Annotations: map[string]string{v1alpha1.AnnotationElect: ""},
			Labels:      map[string]string{"app": "web"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler",
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "whoami"}},
			Tolerations:   []corev1.Toleration{notReady(ptr.To(int64(300))), unreachable(ptr.To(int64(300)))},
		},
	}
	for k, v := range annotations {
		pod.Annotations[k] = v
	}
	if change != nil {
		change(&pod.Spec)
	}
	return pod
}

// constrained has one constraint of each kind.
func constrained(spec *corev1.PodSpec) {
	spec.NodeSelector = map[string]string{"disk": "ssd"}
	spec.Tolerations = append(spec.Tolerations, gpuToleration)
	spec.Affinity = gpuAffinity.DeepCopy()
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{*byZone.DeepCopy()}
	spec.SchedulerName = "volcano"
}

var ofConstrained = translate.Constraints{
	NodeSelector: map[string]string{"disk": "ssd"},
	Tolerations: []corev1.Toleration{
		notReady(ptr.To(int64(300))), unreachable(ptr.To(int64(300))), gpuToleration,
	},
	Affinity:                  gpuAffinity,
	TopologySpreadConstraints: []corev1.TopologySpreadConstraint{byZone},
	SchedulerName:             "volcano",
}

const chosenByAnnotation = `
nodeSelector: {region: eu}
tolerations: [{key: zone, operator: Exists}]
affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
  {topologyKey: rack, labelSelector: {matchLabels: {app: db}}}]}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: region, whenUnsatisfiable: ScheduleAnyway}]
serviceAccountName: ignored
`

var ofAnnotation = translate.Constraints{
	NodeSelector: map[string]string{"virtual-kubelet.io/provider": "admiralty", "region": "eu"},
	Tolerations: []corev1.Toleration{
		ofProvider, ofNetwork, unreachable(nil), notReady(ptr.To(int64(300))), zoneToleration,
	},
	Affinity:                  &corev1.Affinity{PodAffinity: together},
	TopologySpreadConstraints: []corev1.TopologySpreadConstraint{byRegion},
	SchedulerName:             "admiralty-proxy",
}

func constraintsIn(spec corev1.PodSpec) translate.Constraints {
	return translate.Constraints{
		NodeSelector: spec.NodeSelector, Tolerations: spec.Tolerations, Affinity: spec.Affinity,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, SchedulerName: spec.SchedulerName,
	}
}

func originalsOf(t *testing.T, proxy *corev1.Pod) translate.Constraints {
	t.Helper()
	var original translate.Constraints
	if err := json.Unmarshal([]byte(proxy.Annotations[v1alpha1.AnnotationOriginalConstraints]), &original); err != nil {
		t.Fatalf("decoding the annotation of the proxy: %v", err)
	}
	return original
}

func mustProxy(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	proxy, err := translate.Proxy(pod)
	if err != nil {
		t.Fatalf("Proxy: %v", err)
	}
	return proxy
}

func TestProxyConstraints(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		change      func(*corev1.PodSpec)
		proxy       translate.Constraints
		delegate    translate.Constraints
	}{
		"a plain pod runs on any virtual node, and its default scheduler is not stored": {
			proxy: translate.Constraints{
				NodeSelector: onVirtualNodes, SchedulerName: "admiralty-proxy",
				Tolerations: []corev1.Toleration{ofProvider, ofNetwork, unreachable(nil), notReady(ptr.To(int64(300)))},
			},
			delegate: translate.Constraints{
				Tolerations: []corev1.Toleration{notReady(ptr.To(int64(300))), unreachable(ptr.To(int64(300)))},
			},
		},
		"without annotations all constraints are the delegate's": {
			change: constrained,
			proxy: translate.Constraints{
				NodeSelector: onVirtualNodes, SchedulerName: "admiralty-proxy",
				Tolerations: []corev1.Toleration{ofProvider, ofNetwork, unreachable(nil), notReady(ptr.To(int64(300)))},
			},
			delegate: ofConstrained,
		},
		"the constraints annotation chooses the virtual node, on top of the delegate's": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: chosenByAnnotation},
			change:      constrained,
			proxy:       ofAnnotation,
			delegate:    ofConstrained,
		},
		"an empty constraints annotation adds nothing": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: " "},
			proxy: translate.Constraints{
				NodeSelector: onVirtualNodes, SchedulerName: "admiralty-proxy",
				Tolerations: []corev1.Toleration{ofProvider, ofNetwork, unreachable(nil), notReady(ptr.To(int64(300)))},
			},
			delegate: translate.Constraints{
				Tolerations: []corev1.Toleration{notReady(ptr.To(int64(300))), unreachable(ptr.To(int64(300)))},
			},
		},
		"the spec's constraints choose the virtual node, and the delegate has none": {
			annotations: map[string]string{v1alpha1.AnnotationUseSpecConstraints: ""},
			change:      constrained,
			proxy: translate.Constraints{
				NodeSelector: map[string]string{"virtual-kubelet.io/provider": "admiralty", "disk": "ssd"},
				Tolerations: []corev1.Toleration{
					ofProvider, ofNetwork, unreachable(nil), notReady(ptr.To(int64(300))), gpuToleration,
				},
				Affinity:                  gpuAffinity,
				TopologySpreadConstraints: []corev1.TopologySpreadConstraint{byZone},
				SchedulerName:             "admiralty-proxy",
			},
			delegate: translate.Constraints{SchedulerName: "volcano"},
		},
		"with both annotations the constraints annotation chooses, and the delegate has none": {
			annotations: map[string]string{
				v1alpha1.AnnotationProxyConstraints: chosenByAnnotation, v1alpha1.AnnotationUseSpecConstraints: "",
			},
			change:   constrained,
			proxy:    ofAnnotation,
			delegate: translate.Constraints{SchedulerName: "volcano"},
		},
		"our scheduler named without our annotation is not the delegate's scheduler": {
			change: func(spec *corev1.PodSpec) { spec.SchedulerName, spec.Tolerations = "admiralty-proxy", nil },
			proxy: translate.Constraints{
				NodeSelector: onVirtualNodes, SchedulerName: "admiralty-proxy",
				Tolerations: []corev1.Toleration{ofProvider, ofNetwork, unreachable(nil)},
			},
		},
		"our annotation from a user who does not name our scheduler is overwritten": {
			annotations: map[string]string{v1alpha1.AnnotationOriginalConstraints: `{"nodeSelector":{"made":"up"}}`},
			change:      func(spec *corev1.PodSpec) { spec.Tolerations = nil },
			proxy: translate.Constraints{
				NodeSelector: onVirtualNodes, SchedulerName: "admiralty-proxy",
				Tolerations: []corev1.Toleration{ofProvider, ofNetwork, unreachable(nil)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := elected(tc.annotations, tc.change)
			before := pod.DeepCopy()
			proxy := mustProxy(t, pod)
			if diff := cmp.Diff(tc.proxy, constraintsIn(proxy.Spec)); diff != "" {
				t.Errorf("unexpected constraints of the proxy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.delegate, originalsOf(t, proxy)); diff != "" {
				t.Errorf("unexpected constraints for the delegate (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("Proxy changed its argument (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(proxy, mustProxy(t, proxy)); diff != "" {
				t.Errorf("Proxy is not idempotent (-once +twice):\n%s", diff)
			}
			if !translate.IsProxy(proxy) || translate.IsProxy(pod) {
				t.Error("IsProxy must hold for the result and not for the argument")
			}
		})
	}
}

func TestProxyTolerations(t *testing.T) {
	everything := corev1.Toleration{Operator: "Exists"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		spec        []corev1.Toleration
		want        []corev1.Toleration // after the tolerations of the provider and the network
	}{
		"a dead cluster is tolerated for as long as the user says": {
			spec: []corev1.Toleration{notReady(ptr.To(int64(10)))},
			want: []corev1.Toleration{unreachable(nil), notReady(ptr.To(int64(10)))},
		},
		"a dead cluster is tolerated for ever if the user says so": {
			spec: []corev1.Toleration{notReady(nil)},
			want: []corev1.Toleration{unreachable(nil), notReady(nil)},
		},
		"unreachable is tolerated for less than the default if the user says so": {
			spec: []corev1.Toleration{unreachable(ptr.To(int64(299)))},
			want: []corev1.Toleration{unreachable(ptr.To(int64(299)))},
		},
		"unreachable is tolerated for ever if the user asks for more than the default": {
			spec: []corev1.Toleration{unreachable(ptr.To(int64(301)))},
			want: []corev1.Toleration{unreachable(nil)},
		},
		"a toleration of everything is narrowed to the taints of a dead node": {
			spec: []corev1.Toleration{everything},
			want: []corev1.Toleration{unreachable(nil), notReady(nil)},
		},
		"a short toleration of every NoExecute taint becomes two short tolerations": {
			spec: []corev1.Toleration{{Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr.To(int64(5))}},
			want: []corev1.Toleration{unreachable(ptr.To(int64(5))), notReady(ptr.To(int64(5)))},
		},
		"a toleration of another effect of not-ready is only the delegate's": {
			spec: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoSchedule"}},
			want: []corev1.Toleration{unreachable(nil)},
		},
		"the annotation's tolerations of dead clusters take precedence over the spec's": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: `
tolerations:
- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 7}
- {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 8}`},
			spec: []corev1.Toleration{notReady(ptr.To(int64(300))), unreachable(ptr.To(int64(300)))},
			want: []corev1.Toleration{unreachable(ptr.To(int64(8))), notReady(ptr.To(int64(7)))},
		},
		"our own tolerations come before the spec's that match the same taints": {
			annotations: map[string]string{v1alpha1.AnnotationUseSpecConstraints: ""},
			spec:        []corev1.Toleration{everything, unreachable(ptr.To(int64(300))), ofProvider, zoneToleration},
			want:        []corev1.Toleration{unreachable(nil), notReady(nil), everything, zoneToleration},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := elected(tc.annotations, func(spec *corev1.PodSpec) { spec.Tolerations = tc.spec })
			proxy := mustProxy(t, pod)
			want := append([]corev1.Toleration{ofProvider, ofNetwork}, tc.want...)
			if diff := cmp.Diff(want, proxy.Spec.Tolerations); diff != "" {
				t.Errorf("unexpected tolerations (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(proxy, mustProxy(t, proxy)); diff != "" {
				t.Errorf("Proxy is not idempotent (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestProxyReinvokedAfterAnotherWebhook(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		change      func(*corev1.PodSpec) // by others, between the two calls
		delegate    func(*translate.Constraints)
	}{
		"a node selector added by another webhook is the delegate's": {
			change: func(spec *corev1.PodSpec) { spec.NodeSelector["env"] = "prod" },
			delegate: func(c *translate.Constraints) {
				c.NodeSelector = map[string]string{"disk": "ssd", "env": "prod"}
			},
		},
		"a node selector forced by another plugin takes precedence over the annotation": {
			change:   func(spec *corev1.PodSpec) { spec.NodeSelector["disk"] = "tape" },
			delegate: func(c *translate.Constraints) { c.NodeSelector = map[string]string{"disk": "tape"} },
		},
		"an added toleration is the delegate's": {
			change:   func(spec *corev1.PodSpec) { spec.Tolerations = append(spec.Tolerations, zoneToleration) },
			delegate: func(c *translate.Constraints) { c.Tolerations = append(c.Tolerations, zoneToleration) },
		},
		"the user's toleration added again is not doubled": {
			change: func(spec *corev1.PodSpec) { spec.Tolerations = append(spec.Tolerations, gpuToleration) },
		},
		"an added topology spread constraint is the delegate's": {
			change: func(spec *corev1.PodSpec) {
				spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, byRegion)
			},
			delegate: func(c *translate.Constraints) {
				c.TopologySpreadConstraints = append(c.TopologySpreadConstraints, byRegion)
			},
		},
		"added affinities are the delegate's": {
			change: func(spec *corev1.PodSpec) {
				spec.Affinity = &corev1.Affinity{PodAffinity: together, PodAntiAffinity: apart}
			},
			delegate: func(c *translate.Constraints) {
				c.Affinity = gpuAffinity.DeepCopy()
				c.Affinity.PodAffinity, c.Affinity.PodAntiAffinity = together, apart
			},
		},
		"an affinity added to the annotation's is the delegate's, without the annotation's": {
			annotations: map[string]string{v1alpha1.AnnotationProxyConstraints: chosenByAnnotation},
			change:      func(spec *corev1.PodSpec) { spec.Affinity.PodAntiAffinity = apart },
			delegate: func(c *translate.Constraints) {
				c.Affinity = gpuAffinity.DeepCopy()
				c.Affinity.PodAntiAffinity = apart
			},
		},
		"everything that makes a pod a proxy is set again": {
			change: func(spec *corev1.PodSpec) { spec.NodeSelector, spec.Tolerations = nil, nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := mustProxy(t, elected(tc.annotations, constrained))
			between := first.DeepCopy()
			tc.change(&between.Spec)
			second := mustProxy(t, between)
			want := originalsOf(t, first)
			if tc.delegate != nil {
				tc.delegate(&want)
			}
			if diff := cmp.Diff(want, originalsOf(t, second)); diff != "" {
				t.Errorf("unexpected constraints for the delegate (-want +got):\n%s", diff)
			}
			wantSpec := constraintsIn(first.Spec)
			if between.Spec.Tolerations == nil {
				wantSpec.Tolerations = wantSpec.Tolerations[:3] // The toleration of not-ready is gone with them.
			}
			if diff := cmp.Diff(wantSpec, constraintsIn(second.Spec)); diff != "" {
				t.Errorf("unexpected constraints of the proxy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProxyReinvokedWithoutConstraintsInTheSpec(t *testing.T) {
	between := mustProxy(t, elected(nil, nil))
	between.Spec.Affinity = gpuAffinity
	if diff := cmp.Diff(gpuAffinity, originalsOf(t, mustProxy(t, between)).Affinity); diff != "" {
		t.Errorf("unexpected affinity for the delegate (-want +got):\n%s", diff)
	}
	between = mustProxy(t, elected(nil, nil))
	between.Spec.NodeSelector["env"] = "prod"
	if diff := cmp.Diff(map[string]string{"env": "prod"},
		originalsOf(t, mustProxy(t, between)).NodeSelector); diff != "" {
		t.Errorf("unexpected node selector for the delegate (-want +got):\n%s", diff)
	}
}
