package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// requiring returns a node affinity that requires one of the labels.
func requiring(keys ...string) *corev1.NodeAffinity {
	selector := &corev1.NodeSelector{}
	for _, key := range keys {
		selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, term(key))
	}
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}
}

// require adds a label to an alternative.
func require(affinity *corev1.NodeAffinity, alternative int, key string) {
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	terms[alternative].MatchExpressions = append(terms[alternative].MatchExpressions, term(key).MatchExpressions...)
}

func term(key string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}},
	}
}

func TestConstraintsThatWereAddedAreTheDelegates(t *testing.T) {
	proxy := mustProxy(t, elected(nil, func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{"disk": "ssd"}
		spec.Affinity = &corev1.Affinity{NodeAffinity: requiring("a", "b")}
	}))
	want := proxy.DeepCopy()
	proxy.Spec.NodeSelector["pool"] = "spot"
	proxy.Spec.Affinity = &corev1.Affinity{NodeAffinity: requiring("c")}
	proxy.Spec.Tolerations = append(proxy.Spec.Tolerations, gpuToleration)
	fingerprint := translate.Fingerprint(proxy)
	translate.MoveAdded(proxy)

	if diff := cmp.Diff(want.Spec.NodeSelector, proxy.Spec.NodeSelector); diff != "" ||
		proxy.Spec.Affinity != nil && proxy.Spec.Affinity.NodeAffinity != nil {
		t.Errorf("the proxy has other constraints: %v\n%s", proxy.Spec.Affinity, diff)
	}
	if translate.Fingerprint(proxy) != fingerprint {
		t.Error("the fingerprint differs from that of the pod in the API server")
	}
	got, err := translate.DelegateConstraints(proxy)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"disk": "ssd", "pool": "spot"}, got.NodeSelector); diff != "" {
		t.Errorf("unexpected selector (-want +got):\n%s", diff)
	}
	terms := got.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 2 || len(terms[0].MatchExpressions) != 2 || terms[1].MatchExpressions[1].Key != "c" {
		t.Errorf("terms %v", terms)
	}
	if diff := cmp.Diff(gpuToleration, got.Tolerations[len(got.Tolerations)-1]); diff != "" {
		t.Errorf("unexpected toleration (-want +got):\n%s", diff)
	}
}

func TestAnAddedSelectorDoesNotReplaceTheUsers(t *testing.T) {
	proxy := mustProxy(t, elected(nil, func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{"disk": "ssd"}
	}))
	proxy.Spec.NodeSelector["disk"] = "hdd"
	want := proxy.DeepCopy()
	translate.MoveAdded(proxy)
	if diff := cmp.Diff(want, proxy); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// choosingAlternatives returns a proxy whose annotation chooses virtual nodes with the label a, or with b.
func choosingAlternatives(t *testing.T) *corev1.Pod {
	t.Helper()
	const chosen = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" +
		"{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: b, operator: Exists}]}]}}}"
	return mustProxy(t, elected(map[string]string{v1alpha1.AnnotationProxyConstraints: chosen}, nil))
}

func TestAffinityThatWasAddedToThatOfTheAnnotationIsTheDelegates(t *testing.T) {
	preference := corev1.PreferredSchedulingTerm{Weight: 1, Preference: term("p")}
	for name, test := range map[string]struct {
		change func(*corev1.NodeAffinity)
		want   *corev1.NodeAffinity
	}{
		"to each alternative": {
			change: func(a *corev1.NodeAffinity) {
				require(a, 0, "x")
				require(a, 1, "y")
			},
			want: requiring("x", "y"),
		},
		"the same to each": {
			change: func(a *corev1.NodeAffinity) {
				require(a, 0, "x")
				require(a, 1, "x")
			},
			want: requiring("x"),
		},
		"a preference": {
			change: func(a *corev1.NodeAffinity) {
				a.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{preference}
			},
			want: &corev1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{preference},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := choosingAlternatives(t)
			before := proxy.DeepCopy()
			test.change(proxy.Spec.Affinity.NodeAffinity)
			translate.MoveAdded(proxy)
			if diff := cmp.Diff(before.Spec.Affinity, proxy.Spec.Affinity); diff != "" {
				t.Errorf("the proxy has another affinity (-want +got):\n%s", diff)
			}
			got, err := translate.DelegateConstraints(proxy)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&corev1.Affinity{NodeAffinity: test.want}, got.Affinity); diff != "" {
				t.Errorf("unexpected affinity of the delegate (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAlternativeToWhichNothingWasAddedIsEnough(t *testing.T) {
	proxy := choosingAlternatives(t)
	require(proxy.Spec.Affinity.NodeAffinity, 0, "x")
	before := proxy.DeepCopy()
	translate.MoveAdded(proxy)
	if diff := cmp.Diff(before, proxy); diff != "" {
		t.Errorf("unexpected change (-before +after):\n%s", diff)
	}
	proxy.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
		{Weight: 1},
	}
	translate.MoveAdded(proxy)
	kept := proxy.Spec.Affinity.NodeAffinity
	if diff := cmp.Diff(before.Spec.Affinity.NodeAffinity, kept); diff != "" {
		t.Errorf("beside a preference, what was added to one alternative is lost (-before +after):\n%s", diff)
	}
}

func TestConstraintsThatChooseTheVirtualNodeStay(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"none were added": {},
		"from the spec":   {v1alpha1.AnnotationUseSpecConstraints: ""},
		"from the annotation": {
			v1alpha1.AnnotationProxyConstraints: "nodeSelector: {zone: z}\naffinity: {nodeAffinity: {}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := mustProxy(t, elected(annotations, func(spec *corev1.PodSpec) {
				spec.NodeSelector = map[string]string{"disk": "ssd"}
			}))
			before := proxy.DeepCopy()
			translate.MoveAdded(proxy)
			if diff := cmp.Diff(before, proxy); diff != "" {
				t.Errorf("unexpected change (-before +after):\n%s", diff)
			}
		})
	}
}
