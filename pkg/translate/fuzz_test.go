package translate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// FuzzProxyIsIdempotent checks that the proxy of any pod is its own proxy, and runs on virtual nodes only.
func FuzzProxyIsIdempotent(f *testing.F) {
	f.Add("", "", "", "", int64(300), uint8(0))
	f.Add("admiralty-proxy", "node.kubernetes.io/unreachable", "nodeSelector: {a: b}", `{"nodeSelector":{"a":"b"}}`,
		int64(10), uint8(3))
	f.Add("volcano", "node.kubernetes.io/not-ready", "tolerations: [{operator: Exists}]", "{}", int64(-1), uint8(7))
	f.Add("admiralty-proxy", "", "affinity: {}", "null", int64(0), uint8(255))
	f.Fuzz(func(t *testing.T, scheduler, key, chosen, original string, seconds int64, bits uint8) {
		if !utf8.ValidString(strings.Join([]string{scheduler, key, chosen, original}, " ")) {
			t.Skip("API servers accept UTF-8 only")
		}
		pod := elected(nil, func(spec *corev1.PodSpec) {
			spec.SchedulerName = scheduler
			spec.NodeSelector = map[string]string{key: scheduler}
			spec.Tolerations = append(spec.Tolerations[:bits%3], corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To(seconds),
			})
		})
		for bit, annotation := range map[uint8][2]string{
			1 << 2: {v1alpha1.AnnotationProxyConstraints, chosen},
			1 << 3: {v1alpha1.AnnotationUseSpecConstraints, ""},
			1 << 4: {v1alpha1.AnnotationOriginalConstraints, original},
		} {
			if bits&bit != 0 {
				pod.Annotations[annotation[0]] = annotation[1]
			}
		}
		if bits&(1<<5) != 0 {
			pod.Spec.Affinity = gpuAffinity
		}
		once, err := translate.Proxy(pod)
		if err != nil {
			t.Skip(err)
		}
		twice, err := translate.Proxy(once)
		if err != nil {
			t.Fatalf("Proxy refuses its own output: %v", err)
		}
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Errorf("Proxy is not idempotent (-once +twice):\n%s", diff)
		}
		if !translate.IsProxy(once) ||
			once.Spec.NodeSelector[v1alpha1.LabelNodeProvider] != v1alpha1.LabelNodeProviderValue {
			t.Errorf("not a proxy: %v", once)
		}
		if _, err := translate.Chaperon(once, source(), destination()); err != nil {
			t.Errorf("the proxy has no PodChaperon: %v", err)
		}
	})
}

// FuzzDelegateLabels checks that no label is lost or changes its value, that labels are valid, and that a selector of
// all of the pod's own labels selects the delegate.
func FuzzDelegateLabels(f *testing.F) {
	f.Add("app=web,a.io/app=db,b.io/app=db", "^b")
	f.Add("job-name=j,batch.kubernetes.io/job-name=j,multicluster.admiralty.io/job-name=k", "")
	f.Add("parent-uid=1,multicluster.admiralty.io/parent-uid=2,multicluster.admiralty.io/target-hash=3", "hash")
	f.Add("a/"+strings.Repeat("x", 63)+"=1,b/"+strings.Repeat("x", 63)+"=2", "=2$")
	f.Fuzz(func(t *testing.T, set, keep string) {
		pod := elected(map[string]string{v1alpha1.AnnotationNoPrefixLabelRegexp: keep}, nil)
		if keep == "" {
			delete(pod.Annotations, v1alpha1.AnnotationNoPrefixLabelRegexp)
		}
		var err error
		if pod.Labels, err = labels.ConvertSelectorToLabelsMap(set); err != nil {
			t.Skip(err)
		}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
				{LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
			},
		}}
		proxy, err := translate.Proxy(pod)
		if err != nil {
			t.Skip(err)
		}
		chaperon := mustChaperon(t, proxy)
		if diff := cmp.Diff(values(pod.Labels), values(labelsOfDelegate(chaperon))); diff != "" {
			t.Errorf("the delegate of %v has the labels %v; values differ:\n%s", pod.Labels, chaperon.Labels, diff)
		}
		for key, value := range chaperon.Labels {
			if msgs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(msgs) > 0 {
				t.Errorf("label %s=%s: %v", key, value, msgs)
			}
		}
		term := chaperon.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil || !selector.Matches(labels.Set(chaperon.Labels)) {
			t.Errorf("selector %v does not match the delegate's labels %v (%v)", selector, chaperon.Labels, err)
		}
		if again := mustChaperon(t, proxy); !cmp.Equal(chaperon, again) {
			t.Errorf("Chaperon differs from call to call:\n%s", cmp.Diff(chaperon, again))
		}
	})
}

// FuzzContainersSeeTheProxy checks that a kubelet shows containers of the delegate the proxy's values, whatever the
// names and texts, and that API servers take the host name.
func FuzzContainersSeeTheProxy(f *testing.F) {
	f.Add("db-0", "app=web,a.io/app=x", "note", "plain", "app")
	f.Add("db.eu", "app=web", "multicluster.admiralty.io/elect", "$(A) $$ \"\n", "note")
	f.Add(strings.Repeat("x", 62)+"-.b", "parent-uid=1", "a/b", "\x00\xff", "multicluster.admiralty.io/parent-uid")
	f.Fuzz(func(t *testing.T, name, set, key, text, ref string) {
		owned := strings.HasPrefix(key, own) && key != v1alpha1.AnnotationElect
		if owned || len(validation.IsQualifiedName(strings.ToLower(key))) > 0 ||
			len(validation.IsQualifiedName(ref)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Skip("no API server accepts such a pod, or these keys are not the user's")
		}
		for _, path := range []string{
			"metadata.name", "metadata.uid", "metadata.labels", "metadata.labels['" + ref + "']",
			"metadata.annotations['" + key + "']", "metadata.annotations['" + ref + "']",
		} {
			pod := elected(map[string]string{key: text}, func(spec *corev1.PodSpec) { refer(spec, path) })
			pod.Name = name
			var err error
			if pod.Labels, err = labels.ConvertSelectorToLabelsMap(set); err != nil {
				t.Skip(err)
			}
			delegate := mustDelegate(t, mustProxy(t, pod))
			if strings.HasSuffix(path, v1alpha1.AnnotationOriginalConstraints+"']") {
				continue
			}
			if diff := cmp.Diff(seen(t, pod), seen(t, delegate)); diff != "" {
				t.Errorf("%s: the delegate sees other values (-source +delegate):\n%s", path, diff)
			}
			if host := delegate.Spec.Hostname; host != "" && len(validation.IsDNS1123Label(host)) > 0 {
				t.Errorf("the host name %q is no label", host)
			}
			over := delegate.Spec.HostnameOverride
			if over != nil && (len(*over) > 64 || len(validation.IsDNS1123Subdomain(*over)) > 0) {
				t.Errorf("the host name %q is no subdomain of 64 characters", *over)
			}
		}
	})
}

// values returns the set of values.
func values(labels map[string]string) map[string]bool {
	set := map[string]bool{}
	for _, value := range labels {
		set[value] = true
	}
	return set
}
