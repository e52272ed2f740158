package translate_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// huge is a repetition within the limits of Go, which takes minutes to match a pod with many labels.
var huge = strings.Repeat("(?:.?){1000}", 800) + "!"

func manyTolerations(n int) []corev1.Toleration {
	var tolerations []corev1.Toleration
	for i := range n {
		tolerations = append(tolerations, corev1.Toleration{
			Key: fmt.Sprint("k", i), Operator: corev1.TolerationOpExists,
		})
	}
	return tolerations
}

// What is costly to read, to compare or to combine stops no leader.
func TestCostlyPodsAreRefused(t *testing.T) {
	chosen := v1alpha1.AnnotationProxyConstraints
	for name, test := range map[string]struct {
		annotations map[string]string
		change      func(*corev1.PodSpec)
		want        string
	}{
		"an amount that ends the process": {
			annotations: map[string]string{
				chosen: `containers: [{name: a, resources: {requests: {cpu: "10000000000000000001e2147483639"}}}]`,
			},
			want: "more than 64 characters, or an exponent",
		},
		"aliases": {
			annotations: map[string]string{chosen: "schedulerName: &x " + strings.Repeat("A", 1000) + "\nnodeName: *x"},
			want:        "has the alias *x",
		},
		"a huge regular expression": {
			annotations: map[string]string{v1alpha1.AnnotationNoPrefixLabelRegexp: huge}, want: "may have at most",
		},
		"many tolerations": {
			change: func(spec *corev1.PodSpec) { spec.Tolerations = manyTolerations(190_000) },
			want:   "spec.tolerations: Too many",
		},
		"many tolerations in the annotation": {
			annotations: map[string]string{
				chosen: "tolerations: [" + strings.Repeat("{operator: Exists},", 2000) + "]",
			},
			want: "tolerations: Too many",
		},
		"many spread constraints": {
			change: func(spec *corev1.PodSpec) {
				spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 2000)
			},
			want: "spec.topologySpreadConstraints: Too many",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := translate.Proxy(elected(test.annotations, test.change))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// Whoever may change pods can do so after admission.
func TestCostlyProxiesHaveNoDelegate(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"many tolerations": func(p *corev1.Pod) { p.Spec.Tolerations = manyTolerations(50_000) },
		"many tolerations of the delegate": func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationOriginalConstraints] = `{"tolerations":[` +
				strings.Repeat(`{"operator":"Exists"},`, 2000) + `{}]}`
		},
		"a huge regular expression": func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationNoPrefixLabelRegexp] = huge
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := mustProxy(t, elected(nil, nil))
			change(proxy)
			if _, err := translate.Chaperon(proxy, translate.Source{}, translate.Destination{}); err == nil {
				t.Error("there is one")
			}
		})
	}
}

func TestTooManyAlternativesAreNotCombined(t *testing.T) {
	keys := slices.Repeat([]string{"a"}, 10_000)
	proxy := mustProxy(t, elected(nil, func(spec *corev1.PodSpec) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: requiring(keys...)}
	}))
	proxy.Spec.Affinity = &corev1.Affinity{NodeAffinity: requiring(keys...)}
	before := proxy.Annotations[v1alpha1.AnnotationOriginalConstraints]
	translate.MoveAdded(proxy)
	if proxy.Annotations[v1alpha1.AnnotationOriginalConstraints] != before || proxy.Spec.Affinity.NodeAffinity == nil {
		t.Error("they were combined")
	}
}

// Each is compared with a set of the others.
func BenchmarkALargeAffinity(b *testing.B) {
	var preferred []corev1.PreferredSchedulingTerm
	for i := range 1000 {
		values := append(slices.Repeat([]string{"x"}, 400), strconv.Itoa(i))
		preferred = append(preferred, corev1.PreferredSchedulingTerm{Weight: 1, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "k", Operator: corev1.NodeSelectorOpIn, Values: values,
			}},
		}})
	}
	const chosen = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [" +
		"{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}"
	proxy, err := translate.Proxy(elected(map[string]string{v1alpha1.AnnotationProxyConstraints: chosen}, nil))
	if err != nil {
		b.Fatal(err)
	}
	proxy.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred
	for b.Loop() {
		translate.MoveAdded(proxy.DeepCopy())
	}
}

func TestMessagesHaveTheBeginningOfWhatIsWrong(t *testing.T) {
	proxy := mustProxy(t, elected(nil, nil))
	proxy.Annotations[v1alpha1.AnnotationOriginalConstraints] = strings.Repeat("{", 250_000)
	_, err := translate.DelegateConstraints(proxy)
	if err == nil || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "{{{…") {
		t.Errorf("error %.3000v", err)
	}
}

func TestExpressions(t *testing.T) {
	for text, valid := range map[string]bool{
		"":                                   true,
		`^(app|app\.kubernetes\.io/name)=`:   true,
		strings.Repeat("team-[0-9]{4}|", 90): true,
		"(":                                  false,
		"(?:x{30}){30}{30}":                  false, // also for Go
		"(?:.?){1000}":                       false,
		"(?:" + strings.Repeat("a", 8000) + "){1000}": false, // 327 MB, if it was compiled
		"(?:a{30}){30}":              true,
		"[a-z0-9.-]{1,200}":          true,
		strings.Repeat("x", 8<<10+1): false,
	} {
		if _, err := translate.CompileExpression(text); (err == nil) != valid {
			t.Errorf("%.40q: error %v, want that it is valid: %t", text, err, valid)
		}
	}
}

func TestAGracePeriodIsBounded(t *testing.T) {
	for seconds, want := range map[int64]time.Duration{
		0: time.Second, 30: 30 * time.Second, math.MaxInt32: math.MaxInt32 * time.Second,
		math.MaxInt32 + 1: math.MaxInt32 * time.Second, math.MaxInt64: math.MaxInt32 * time.Second,
	} {
		if got := translate.GracePeriod(&corev1.PodSpec{TerminationGracePeriodSeconds: &seconds}); got != want {
			t.Errorf("%d s: %s", seconds, got)
		}
	}
}

// The suffixes that keep labels apart would run out.
func TestThereAreNotTooManyLabelsToTranslate(t *testing.T) {
	many := map[string]string{}
	for i := range 70_000 {
		many[fmt.Sprintf("p%d/x", i)] = strconv.Itoa(i)
	}
	pod := elected(nil, nil)
	pod.Labels = many
	if _, err := translate.Proxy(pod); err == nil || !strings.Contains(err.Error(), "metadata.labels: Too many") {
		t.Errorf("admission: %v", err)
	}
	proxy := mustProxy(t, elected(nil, nil))
	proxy.Labels = many
	if _, err := translate.Chaperon(proxy, translate.Source{}, translate.Destination{}); err == nil {
		t.Error("they are translated")
	}
	if _, err := translate.DelegateSelector(many, nil, translate.Source{}); err == nil {
		t.Error("a selector is translated")
	}
}
