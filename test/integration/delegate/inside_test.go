package delegate

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// placed creates the PodChaperon of an elected pod, as a source does, and waits for its delegate. Before, a dry run
// shows that the pod is valid without us.
func placed(t *testing.T, pod *corev1.Pod, keepLabels bool) *corev1.Pod {
	t.Helper()
	plain := pod.DeepCopy()
	env.Must(t, target.Client.Create(t.Context(), plain, client.DryRunAll))
	pod.UID = plain.UID
	proxy, err := translate.Proxy(pod)
	env.Must(t, err)
	chaperon, err := translate.Chaperon(proxy, translate.Source{ClusterID: "source", ClusterName: "c1"},
		translate.Destination{Target: types.NamespacedName{Name: "c2"}, KeepLabels: keepLabels})
	env.Must(t, err)
	env.Create(t, target, chaperon)
	delegate := &corev1.Pod{}
	env.Eventually(t, func(ctx context.Context) error {
		if refused := refusal(env.Get(t, target, chaperon)); refused != nil {
			t.Fatal(refused)
		}
		return target.Client.Get(ctx, client.ObjectKeyFromObject(chaperon), delegate)
	})
	return delegate
}

// refusal returns why a delegate is refused, or nil.
func refusal(c *v1alpha1.PodChaperon) error {
	for _, condition := range c.Status.Conditions {
		if condition.Type == v1alpha1.ConditionDelegate {
			return fmt.Errorf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return nil
}

// curious returns a pod that refers to every field of itself, and to other pods in every way.
func curious(namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, name), Spec: env.PodSpec()}
	pod.Annotations = map[string]string{v1alpha1.AnnotationElect: "", "example.com/Note": "$(A)\n\"quoted\""}
	pod.Labels = map[string]string{"app": "web", "app.kubernetes.io/app": "other", "pod-template-hash": "1"}
	paths := []string{
		"metadata.name", "metadata.uid", "metadata.namespace", "metadata.labels['app']", "metadata.labels['absent']",
		"metadata.annotations['example.com/Note']", "metadata.annotations['" + v1alpha1.AnnotationElect + "']",
	}
	var variables []corev1.EnvVar
	var files []corev1.DownwardAPIVolumeFile
	for i, path := range append(paths, "spec.nodeName", "status.podIP", "status.hostIP", "spec.serviceAccountName") {
		ref := &corev1.ObjectFieldSelector{FieldPath: path}
		variables = append(variables, corev1.EnvVar{
			Name: "V" + strconv.Itoa(i), ValueFrom: &corev1.EnvVarSource{FieldRef: ref},
		})
	}
	for i, path := range append(paths, "metadata.labels", "metadata.annotations") {
		ref := &corev1.ObjectFieldSelector{FieldPath: path}
		files = append(files, corev1.DownwardAPIVolumeFile{Path: strconv.Itoa(i), FieldRef: ref})
	}
	pod.Spec.Containers[0].Env = variables
	pod.Spec.Containers[0].Args = []string{"$(V0)"}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "sidecar", Image: "app", Env: variables, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
	}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files},
	}}, {Name: "b", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: files}}},
	}}}}
	sociable(&pod.Spec)
	return pod
}

// sociable gives the spec every kind of selector of pods.
func sociable(spec *corev1.PodSpec) {
	keys := []string{"pod-template-hash"}
	var terms []corev1.PodAffinityTerm
	for _, selector := range []*metav1.LabelSelector{
		nil, {}, {MatchLabels: map[string]string{"app": "web"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "parent-uid", Operator: "DoesNotExist"}}},
	} {
		term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selector}
		if selector != nil {
			term.MatchLabelKeys, term.MismatchLabelKeys = keys, []string{"app.kubernetes.io/app"}
			spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: "zone" + strconv.Itoa(len(terms)), LabelSelector: selector.DeepCopy(),
				WhenUnsatisfiable: corev1.ScheduleAnyway, MatchLabelKeys: keys,
			})
		}
		terms = append(terms, term)
	}
	var preferred []corev1.WeightedPodAffinityTerm
	for _, term := range terms {
		preferred = append(preferred, corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: *term.DeepCopy()})
	}
	spec.Affinity = &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: preferred},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
	}
}

// TestNoDelegateIsRefusedForWhatItsContainersSee has the pod of every kind of name.
func TestNoDelegateIsRefusedForWhatItsContainersSee(t *testing.T) {
	long := strings.Repeat("x", 62)
	for name, test := range map[string]struct {
		change         func(*corev1.Pod)
		hostname, over string
	}{
		"db-0":           {hostname: "db-0"},
		long + "-0":      {hostname: long},
		"db.eu":          {over: "db.eu"},
		long + ".x-y.z":  {hostname: long},
		"hostnetwork":    {change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"dotted.network": {change: func(p *corev1.Pod) { p.Spec.HostNetwork = true }},
		"full.name":      {change: func(p *corev1.Pod) { p.Spec.SetHostnameAsFQDN = ptr.To(true) }},
		"delegate": {change: func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationPodIdentity] = v1alpha1.PodIdentityDelegate
		}},
		"subdomain": {change: func(p *corev1.Pod) { p.Spec.Subdomain = "db" }, hostname: "subdomain"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keepLabels := range []bool{false, true} {
				pod := curious(newNamespace(t, nil), name)
				if test.change != nil {
					test.change(pod)
				}
				spec := placed(t, pod, keepLabels).Spec
				if over := ptr.Deref(spec.HostnameOverride, ""); spec.Hostname != test.hostname || over != test.over {
					t.Errorf("host name %q, override %q; want %q and %q", spec.Hostname, over, test.hostname, test.over)
				}
			}
		})
	}
}

// TestLargestAnnotations has the largest annotations that admission accepts. With one byte more, it refuses the pod.
func TestLargestAnnotations(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: env.Meta(newNamespace(t, nil), strings.Repeat("x", 253)), Spec: env.PodSpec()}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "all", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"},
		}}},
	}}}
	pod.Annotations = map[string]string{v1alpha1.AnnotationElect: "", "note": ""}
	refused := sort.Search(256<<10, func(size int) bool {
		pod.Annotations["note"] = strings.Repeat("x", size)
		_, err := translate.Proxy(pod)
		return err != nil
	})
	if refused < 126<<10 {
		t.Errorf("admission refuses annotations of %d bytes", refused)
	}
	pod.Annotations["note"] = strings.Repeat("x", refused-1)
	placed(t, pod, true)
}
