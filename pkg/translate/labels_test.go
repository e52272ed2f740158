package translate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const own = "multicluster.admiralty.io/"

// labelsOfDelegate returns the labels that come from the pod, without our own.
func labelsOfDelegate(chaperon *v1alpha1.PodChaperon) map[string]string {
	labels := map[string]string{}
	for k, v := range chaperon.Labels {
		switch k {
		case own + "parent-uid", own + "parent-cluster-id", own + "parent-cluster-name",
			own + "target-hash", own + "target-id":
		default:
			labels[k] = v
		}
	}
	return labels
}

func TestDelegateLabels(t *testing.T) {
	long := strings.Repeat("x", 63)
	for name, tc := range map[string]struct {
		labels map[string]string
		keep   string
		want   map[string]string
	}{
		"keys get our prefix": {
			labels: map[string]string{"app": "web", "app.kubernetes.io/name": "web"},
			want:   map[string]string{own + "app": "web", own + "name": "web"},
		},
		"labels that match the regular expression keep their key": {
			labels: map[string]string{"app": "web", "tier": "front", "kueue.x-k8s.io/queue-name": "q"},
			keep:   "^tier=front$|^kueue",
			want:   map[string]string{own + "app": "web", "tier": "front", "kueue.x-k8s.io/queue-name": "q"},
		},
		"the regular expression matches keys with values": {
			labels: map[string]string{"tier": "back"}, keep: "^tier=front$",
			want: map[string]string{own + "tier": "back"},
		},
		"labels with equal values share a key": {
			labels: map[string]string{"job-name": "j", "batch.kubernetes.io/job-name": "j"},
			want:   map[string]string{own + "job-name": "j"},
		},
		"of labels with different values, the one that sorts first gets the short key": {
			labels: map[string]string{"app": "1", "a.io/app": "2", "b.io/app": "3"},
			want:   map[string]string{own + "app": "2", own + "app-863f": "1", own + "app-0b27": "3"},
		},
		"a label that has the key already keeps it": {
			labels: map[string]string{own + "app": "1", "a.io/app": "2"},
			want:   map[string]string{own + "app": "1", own + "app-a1ff": "2"},
		},
		"a long key is cut for the hash": {
			labels: map[string]string{"a.io/" + long: "1", "b.io/" + long: "2"},
			want:   map[string]string{own + long: "1", own + long[:58] + "-7197": "2"},
		},
		"a user's label never takes the key of one of our own": {
			labels: map[string]string{"parent-uid": "forged", own + "target-hash": "f", own + "target-id": "f"},
			keep:   ".*hash.*",
			want: map[string]string{
				own + "parent-uid-57d8": "forged", own + "target-hash-8aec": "f", own + "target-id-e1a8": "f",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := elected(map[string]string{v1alpha1.AnnotationNoPrefixLabelRegexp: tc.keep}, nil)
			if tc.keep == "" {
				delete(pod.Annotations, v1alpha1.AnnotationNoPrefixLabelRegexp)
			}
			pod.Labels = tc.labels
			chaperon := mustChaperon(t, mustProxy(t, pod))
			if diff := cmp.Diff(tc.want, labelsOfDelegate(chaperon)); diff != "" {
				t.Errorf("unexpected labels (-want +got):\n%s", diff)
			}
			if chaperon.Labels[v1alpha1.LabelParentUID] != "0123" ||
				chaperon.Labels[v1alpha1.LabelTargetHash] != targetHash {
				t.Errorf("our own labels are wrong: %v", chaperon.Labels)
			}
		})
	}
}

func TestDelegateSelectors(t *testing.T) {
	type selector = metav1.LabelSelector
	type requirements = []metav1.LabelSelectorRequirement
	for name, tc := range map[string]struct {
		labels map[string]string
		keep   string
		in     selector
		want   selector
	}{
		"keys of the pod's labels": {
			labels: map[string]string{"app": "web"},
			in: selector{
				MatchLabels: map[string]string{"app": "web"},
				MatchExpressions: requirements{
					{Key: "app", Operator: "Exists"}, {Key: "app", Operator: "In", Values: []string{"web"}},
				},
			},
			want: selector{
				MatchLabels: map[string]string{own + "app": "web"},
				MatchExpressions: requirements{
					{Key: own + "app", Operator: "Exists"}, {Key: own + "app", Operator: "In", Values: []string{"web"}},
				},
			},
		},
		"keys of other pods' labels": {
			in: selector{
				MatchLabels:      map[string]string{"a.io/db": "x"},
				MatchExpressions: requirements{{Key: "b.io/z", Operator: "DoesNotExist"}},
			},
			want: selector{
				MatchLabels:      map[string]string{own + "db": "x"},
				MatchExpressions: requirements{{Key: own + "z", Operator: "DoesNotExist"}},
			},
		},
		"keys that collide on the pod": {
			labels: map[string]string{"a.io/app": "1", "b.io/app": "2"},
			in:     selector{MatchLabels: map[string]string{"b.io/app": "2"}},
			want:   selector{MatchLabels: map[string]string{own + "app-0b27": "2"}},
		},
		"keys that collide only in the selector stay two requirements": {
			in: selector{MatchLabels: map[string]string{"a.io/app": "1", "b.io/app": "2", "c.io/app": "1"}},
			want: selector{
				MatchLabels:      map[string]string{own + "app": "1"},
				MatchExpressions: requirements{{Key: own + "app", Operator: "In", Values: []string{"2"}}},
			},
		},
		"labels that keep their key": {
			labels: map[string]string{"tier": "front", "app": "web"}, keep: "^tier=front|^zone=",
			in: selector{
				MatchLabels: map[string]string{"tier": "front", "app": "web"},
				MatchExpressions: requirements{
					{Key: "tier", Operator: "In", Values: []string{"front", "front2"}},
					{Key: "tier", Operator: "Exists"},
					{Key: "zone", Operator: "Exists"},
				},
			},
			want: selector{
				MatchLabels: map[string]string{"tier": "front", own + "app": "web"},
				MatchExpressions: requirements{
					{Key: "tier", Operator: "In", Values: []string{"front", "front2"}},
					{Key: "tier", Operator: "Exists"},
					{Key: "zone", Operator: "Exists"},
				},
			},
		},
		"a key with a value that does not keep it is rewritten": {
			labels: map[string]string{"tier": "front"}, keep: "^tier=front$",
			in: selector{
				MatchExpressions: requirements{{Key: "tier", Operator: "NotIn", Values: []string{"front", "back"}}},
			},
			want: selector{
				MatchExpressions: requirements{
					{Key: own + "tier", Operator: "NotIn", Values: []string{"front", "back"}},
				},
			},
		},
		"a user's key never becomes one of our own": {
			in:   selector{MatchLabels: map[string]string{"parent-uid": "forged"}},
			want: selector{MatchLabels: map[string]string{own + "parent-uid-57d8": "forged"}},
		},
		"a selector without requirements": {},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{}
			if tc.keep != "" {
				annotations[v1alpha1.AnnotationNoPrefixLabelRegexp] = tc.keep
			}
			pod := elected(annotations, func(spec *corev1.PodSpec) { everywhere(spec, &tc.in) })
			pod.Labels = tc.labels
			spec := mustChaperon(t, mustProxy(t, pod)).Spec
			if tc.want.MatchLabels == nil {
				tc.want.MatchLabels = map[string]string{}
			}
			tc.want.MatchLabels[own+"parent-cluster-id"] = "id-of-c1"
			wantSpec := &corev1.PodSpec{}
			everywhere(wantSpec, &tc.want)
			if diff := cmp.Diff(wantSpec.Affinity, spec.Affinity); diff != "" {
				t.Errorf("unexpected affinity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(wantSpec.TopologySpreadConstraints, spec.TopologySpreadConstraints); diff != "" {
				t.Errorf("unexpected topology spread (-want +got):\n%s", diff)
			}
		})
	}
}

// everywhere puts the selector into every place of a spec that can have one.
func everywhere(spec *corev1.PodSpec, selector *metav1.LabelSelector) {
	// This selects namespaces, not pods.
	namespaces := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	term := func() corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey: "zone", LabelSelector: selector.DeepCopy(), NamespaceSelector: namespaces,
		}
	}
	terms := func() []corev1.PodAffinityTerm { return []corev1.PodAffinityTerm{term(), {TopologyKey: "any"}} }
	weighted := func() []corev1.WeightedPodAffinityTerm {
		return []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term()}}
	}
	spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  terms(),
			PreferredDuringSchedulingIgnoredDuringExecution: weighted(),
		},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  terms(),
			PreferredDuringSchedulingIgnoredDuringExecution: weighted(),
		},
	}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{TopologyKey: "zone", LabelSelector: selector.DeepCopy()},
	}
}

func TestDelegateMatchLabelKeys(t *testing.T) {
	pod := elected(map[string]string{v1alpha1.AnnotationNoPrefixLabelRegexp: "^kept="}, func(spec *corev1.PodSpec) {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MatchLabelKeys: []string{"pod-template-hash", "job-name", "batch.kubernetes.io/job-name", "kept", "absent"},
		}}
		spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				MatchLabelKeys:    []string{"pod-template-hash"},
				MismatchLabelKeys: []string{"job-name", "batch.kubernetes.io/job-name", "kept", "absent"},
			}},
		}}
	})
	pod.Labels = map[string]string{
		"pod-template-hash": "1", "job-name": "j", "batch.kubernetes.io/job-name": "j", "kept": "x",
	}
	spec := mustChaperon(t, mustProxy(t, pod)).Spec
	want := []string{own + "pod-template-hash", own + "job-name", "kept", own + "absent"}
	if diff := cmp.Diff(want, spec.TopologySpreadConstraints[0].MatchLabelKeys); diff != "" {
		t.Errorf("unexpected keys of the topology spread (-want +got):\n%s", diff)
	}
	term := spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	if diff := cmp.Diff([]string{own + "pod-template-hash"}, term.MatchLabelKeys); diff != "" {
		t.Errorf("unexpected keys of the affinity (-want +got):\n%s", diff)
	}
	mismatched := []string{own + "job-name", "kept", own + "absent"}
	if diff := cmp.Diff(mismatched, term.MismatchLabelKeys); diff != "" {
		t.Errorf("unexpected mismatched keys of the affinity (-want +got):\n%s", diff)
	}
}
