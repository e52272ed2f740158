package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// refer puts a reference to the field into every place of a new pod's spec that can have one.
func refer(spec *corev1.PodSpec, path string) {
	ref := func() *corev1.ObjectFieldSelector {
		return &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}
	}
	env := func() []corev1.EnvVar {
		return []corev1.EnvVar{
			{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: ref()}},
			{Name: "B", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{}}},
			{Name: "C", Value: "metadata.labels['a.io/app'] $(A)"},
		}
	}
	items := func() []corev1.DownwardAPIVolumeFile {
		return []corev1.DownwardAPIVolumeFile{{FieldRef: ref()}, {ResourceFieldRef: &corev1.ResourceFieldSelector{}}}
	}
	spec.InitContainers = []corev1.Container{{Name: "init", Env: env()}}
	spec.Containers[0].Env = env()
	projected := &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: items()}}, {Secret: &corev1.SecretProjection{}},
	}}
	spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items()}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{Projected: projected}},
	}
}

// seen returns what a kubelet shows the containers of the pod in all places of refer.
func seen(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var values []string
	show := func(ref *corev1.ObjectFieldSelector) {
		if value, err := fieldpath.ExtractFieldPathAsString(pod, ref.FieldPath); err != nil {
			t.Errorf("a kubelet finds no value: %v", err)
		} else {
			values = append(values, value)
		}
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		show(c.Env[0].ValueFrom.FieldRef)
	}
	show(pod.Spec.Volumes[0].DownwardAPI.Items[0].FieldRef)
	show(pod.Spec.Volumes[1].Projected.Sources[0].DownwardAPI.Items[0].FieldRef)
	return values
}

// labelled returns an elected pod whose containers refer to the field.
func labelled(annotations map[string]string, path string) *corev1.Pod {
	pod := elected(annotations, func(spec *corev1.PodSpec) { refer(spec, path) })
	pod.Labels = map[string]string{
		"a.io/app": "1", "b.io/app": "2", "batch.kubernetes.io/job-completion-index": "3", own + "parent-uid": "mine",
	}
	return pod
}

func mustDelegate(t *testing.T, proxy *corev1.Pod) *corev1.Pod {
	t.Helper()
	chaperon := mustChaperon(t, proxy)
	chaperon.UID = "uid-of-chaperon"
	delegate := translate.Delegate(chaperon)
	delegate.UID = "uid-of-delegate"
	return delegate
}

func TestContainersSeeTheProxy(t *testing.T) {
	const note = "5 $ $(A) \"quoted\"\nand more"
	for path, want := range map[string]string{
		"metadata.name":      "web",
		"metadata.uid":       "0123",
		"metadata.namespace": "default",
		"metadata.labels": `a.io/app="1"` + "\n" + `b.io/app="2"` + "\n" +
			`batch.kubernetes.io/job-completion-index="3"` + "\n" + `multicluster.admiralty.io/parent-uid="mine"`,
		"metadata.annotations": `kubectl.kubernetes.io/last-applied-configuration="{}"` + "\n" +
			`multicluster.admiralty.io/elect=""` + "\n" + `note="5 $ $(A) \"quoted\"\nand more"`,
		"metadata.labels['batch.kubernetes.io/job-completion-index']":                         "3",
		"metadata.labels['b.io/app']":                                                         "2",
		"metadata.labels['app']":                                                              "",
		"metadata.labels['multicluster.admiralty.io/parent-uid']":                             "mine",
		"metadata.labels['multicluster.admiralty.io/target-id']":                              "",
		"metadata.annotations['note']":                                                        note,
		"metadata.annotations['absent']":                                                      "",
		"metadata.annotations['kubectl.kubernetes.io/last-applied-configuration']":            "{}",
		"metadata.annotations['multicluster.admiralty.io/elect']":                             "",
		"metadata.annotations['multicluster.admiralty.io/parent-name']":                       "",
		"metadata.annotations['multicluster.admiralty.io/original-constraints']":              "",
		"metadata.annotations['multicluster.admiralty.io/use-existing']":                      "",
		"metadata.annotations['multicluster.admiralty.io/" + strings.Repeat("long", 8) + "']": "",
	} {
		t.Run(path, func(t *testing.T) {
			pod := labelled(map[string]string{
				"note": note, corev1.LastAppliedConfigAnnotation: "{}",
			}, path)
			proxy := mustProxy(t, pod)
			proxy.Annotations[v1alpha1.AnnotationFencedAfter] = "60" // Since it is bound.
			if diff := cmp.Diff([]string{want, want, want, want}, seen(t, mustDelegate(t, proxy))); diff != "" {
				t.Errorf("containers of the delegate see (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(pod.Spec.Containers, proxy.Spec.Containers); diff != "" {
				t.Errorf("the proxy has other containers than the pod (-pod +proxy):\n%s", diff)
			}
		})
	}
}

func TestOtherReferencesStay(t *testing.T) {
	for _, path := range []string{
		"spec.nodeName", "spec.serviceAccountName", "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs",
		"metadata.namespace", "metadata.annotations['note']", "metadata.labels['open", "metadata.labelsX['app']",
		"metadata.labels['topology.kubernetes.io/zone']", "metadata.labels['topology.kubernetes.io/region']",
	} {
		t.Run(path, func(t *testing.T) {
			proxy := mustProxy(t, labelled(nil, path))
			before := mustDelegate(t, mustProxy(t, labelled(nil, "metadata.namespace")))
			delegate := mustDelegate(t, proxy)
			if diff := cmp.Diff(proxy.Spec.Containers, delegate.Spec.Containers); diff != "" {
				t.Errorf("unexpected containers (-proxy +delegate):\n%s", diff)
			}
			if diff := cmp.Diff(proxy.Spec.Volumes, delegate.Spec.Volumes); diff != "" {
				t.Errorf("unexpected volumes (-proxy +delegate):\n%s", diff)
			}
			if diff := cmp.Diff(before.Annotations, delegate.Annotations); diff != "" {
				t.Errorf("the delegate has other annotations than one without references:\n%s", diff)
			}
		})
	}
}

// The kubelet reads what the references lead to, so a change of the proxy must not change the references.
func TestAChangedProxyChangesValuesAndNotReferences(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.labels":                                 `a.io/app="9"` + "\n" + `app="new"`,
		"metadata.labels['a.io/app']":                     "9",
		"metadata.labels['b.io/app']":                     "",
		"metadata.labels['app']":                          "new",
		"metadata.annotations['note']":                    "new",
		"metadata.annotations['" + own + "use-existing']": "all",
	} {
		t.Run(path, func(t *testing.T) {
			proxy := mustProxy(t, labelled(nil, path))
			before := mustChaperon(t, proxy)
			live := translate.Delegate(before)
			proxy.Labels = map[string]string{"a.io/app": "9", "app": "new"}
			proxy.Annotations["note"], proxy.Annotations[v1alpha1.AnnotationUseExisting] = "new", "all"
			proxy.Annotations[v1alpha1.AnnotationPodIdentity] = v1alpha1.PodIdentityDelegate
			after, err := translate.ChangedChaperon(proxy, source(), destination(), before)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{want, want, want, want}, seen(t, translate.Delegate(after))); diff != "" {
				t.Errorf("containers of the delegate see (-want +got):\n%s", diff)
			}
			live.Annotations = translate.DelegateChanges(live, after).Metadata.Annotations
			if diff := cmp.Diff([]string{want, want, want, want}, seen(t, live)); diff != "" {
				t.Errorf("containers of the running delegate see (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEphemeralContainersSeeTheProxyToo(t *testing.T) {
	const path = "metadata.labels['a.io/app']"
	proxy := mustProxy(t, labelled(nil, "metadata.namespace"))
	proxy.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{{
			Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}},
		}}},
	}}
	values := mustChaperon(t, proxy).Annotations
	want := mustChaperon(t, mustProxy(t, labelled(nil, path))).Annotations
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("unexpected annotations of the PodChaperon (-want +got):\n%s", diff)
	}
}

func TestAnAnnotationKeepsTheDelegatesOwnFields(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name":                "web-",
		"metadata.uid":                 "uid-of-delegate",
		"metadata.labels":              own + `app="1"`,
		"metadata.labels['b.io/app']":  "2",
		"metadata.annotations":         `multicluster.admiralty.io/parent-name="web"`,
		"metadata.annotations['note']": "kept",
	} {
		t.Run(path, func(t *testing.T) {
			delegate := mustDelegate(t, mustProxy(t, labelled(map[string]string{
				"note": "kept", v1alpha1.AnnotationPodIdentity: v1alpha1.PodIdentityDelegate,
			}, path)))
			for _, got := range seen(t, delegate) {
				if !strings.Contains(got, want) {
					t.Errorf("containers of the delegate see %q, want the delegate's own: %q", got, want)
				}
			}
			if delegate.Spec.Hostname != "" || delegate.Spec.HostnameOverride != nil {
				t.Errorf("the delegate has the host name %q, want its own", delegate.Spec.Hostname)
			}
		})
	}
	explicit := mustProxy(t, labelled(
		map[string]string{v1alpha1.AnnotationPodIdentity: v1alpha1.PodIdentityProxy}, "metadata.name"))
	if got := seen(t, mustDelegate(t, explicit)); got[0] != "web" {
		t.Errorf("with the identity %q, containers see the name %q, want web", v1alpha1.PodIdentityProxy, got[0])
	}
}

func TestAnnotationsThatFitTwiceAreAccepted(t *testing.T) {
	annotations := map[string]string{"note": strings.Repeat("x", 126<<10)}
	for _, path := range []string{"metadata.annotations", "metadata.annotations['note']"} {
		pod := elected(annotations, func(spec *corev1.PodSpec) { refer(spec, path) })
		expectAccepted(t, fmt.Sprintf("a pod that refers to %s", path), pod)
	}
	large := map[string]string{"note": strings.Repeat("x", 255<<10)}
	expectAccepted(t, "a pod with large annotations that refers to one",
		elected(large, func(spec *corev1.PodSpec) { refer(spec, "metadata.annotations['note']") }))
}

func expectAccepted(t *testing.T, what string, pod *corev1.Pod) {
	t.Helper()
	if _, err := translate.Proxy(pod); err != nil {
		t.Errorf("%s is refused: %v", what, err)
	}
}

func TestAChangedPodChaperonKeepsLabelsAsBefore(t *testing.T) {
	for _, kept := range []bool{false, true} {
		proxy := mustProxy(t, elected(nil, nil))
		to := destination()
		to.KeepLabels = kept
		before, err := translate.Chaperon(proxy, source(), to)
		if err != nil {
			t.Fatal(err)
		}
		proxy.Labels["app"] = "new"
		to.KeepLabels = !kept
		after, err := translate.ChangedChaperon(proxy, source(), to, before)
		if err != nil {
			t.Fatal(err)
		}
		if value, now := after.Labels["app"]; now != kept || kept && value != "new" {
			t.Errorf("the PodChaperon has the label app: %t (%q), want %t", now, value, kept)
		}
	}
}

func TestADebuggerSeesTheProxy(t *testing.T) {
	const path = "metadata.name"
	proxy := mustProxy(t, labelled(nil, path))
	before := mustChaperon(t, proxy)
	debugger := corev1.EphemeralContainerCommon{Name: "debugger", Env: proxy.Spec.Containers[0].Env}
	proxy.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: debugger}}
	after, err := translate.ChangedChaperon(proxy, source(), destination(), before)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec.Containers[0].Env, after.Spec.EphemeralContainers[0].Env); diff != "" {
		t.Errorf("unexpected variables of the debugger (-want +got):\n%s", diff)
	}
}

func TestADebuggerMountsTheDelegatesToken(t *testing.T) {
	token := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			},
		}}}
	}
	const path = "/var/run/secrets/kubernetes.io/serviceaccount"
	proxy := mustProxy(t, elected(nil, func(spec *corev1.PodSpec) {
		spec.Volumes = []corev1.Volume{token("kube-api-access-proxy"), {Name: "data"}}
	}))
	before := mustChaperon(t, proxy)
	data := corev1.VolumeMount{Name: "data", MountPath: "/data"}
	debugger := corev1.EphemeralContainerCommon{Name: "debugger", VolumeMounts: []corev1.VolumeMount{
		{Name: "kube-api-access-proxy", MountPath: path}, data,
	}}
	proxy.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: debugger}}
	after, err := translate.ChangedChaperon(proxy, source(), destination(), before)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		volumes []corev1.Volume
		want    []corev1.VolumeMount
	}{
		"which has another name": {
			[]corev1.Volume{token("kube-api-access-delegate")},
			[]corev1.VolumeMount{{Name: "kube-api-access-delegate", MountPath: path}, data},
		},
		"if it has one": {nil, []corev1.VolumeMount{data}},
	} {
		t.Run(name, func(t *testing.T) {
			delegate := translate.Delegate(before)
			delegate.Spec.Volumes = append(delegate.Spec.Volumes, test.volumes...)
			changed := translate.DelegateChanges(delegate, after).Debugged
			if diff := cmp.Diff(test.want, changed.Spec.EphemeralContainers[0].VolumeMounts); diff != "" {
				t.Errorf("unexpected mounts of the debugger (-want +got):\n%s", diff)
			}
		})
	}
}
