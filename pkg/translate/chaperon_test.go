package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// The ClusterTarget eu-west.
const (
	targetHash = "799e4a5d3a"
	targetID   = "799e4a5d3a64ebdb0162021bf346b6800b315f8e"
)

func destination() translate.Destination {
	return translate.Destination{Target: types.NamespacedName{Name: "eu-west"}, Proof: "v1.key.mac"}
}

func source() translate.Source {
	return translate.Source{ClusterID: "id-of-c1", ClusterName: "c1"}
}

func mustChaperon(t *testing.T, proxy *corev1.Pod) *v1alpha1.PodChaperon {
	t.Helper()
	chaperon, err := translate.Chaperon(proxy, source(), destination())
	if err != nil {
		t.Fatalf("Chaperon: %v", err)
	}
	return chaperon
}

// placed returns the proxy of a pod as the API server stores it.
func placed(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	proxy := mustProxy(t, pod)
	proxy.Spec.NodeName = "admiralty-c2"
	proxy.Spec.Priority = ptr.To(int32(1000))
	proxy.Spec.PriorityClassName = "high"
	proxy.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
	proxy.Spec.Overhead = corev1.ResourceList{}
	proxy.Spec.RuntimeClassName = ptr.To("gvisor")
	proxy.Spec.ServiceAccountName = "builder"
	proxy.Spec.DeprecatedServiceAccount = "builder"
	proxy.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	proxy.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	proxy.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}}
	proxy.Spec.Hostname, proxy.Spec.Subdomain = "web-0", "web"
	proxy.Spec.TerminationGracePeriodSeconds = ptr.To(int64(7))
	return proxy
}

func TestChaperonOfAProxy(t *testing.T) {
	pod := elected(map[string]string{
		"example.com/note":                 "kept",
		corev1.LastAppliedConfigAnnotation: "{}",
		v1alpha1.AnnotationNoReservation:   "",
	}, func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{"disk": "ssd"}
		spec.Tolerations = []corev1.Toleration{gpuToleration}
		spec.Affinity = gpuAffinity
		spec.SchedulerName = "volcano"
	})
	proxy := placed(t, pod)
	before := proxy.DeepCopy()
	want := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Name:      translate.DelegateName(proxy),
			Namespace: "default",
			Labels: map[string]string{
				"multicluster.admiralty.io/app":                 "web",
				"multicluster.admiralty.io/parent-uid":          "0123",
				"multicluster.admiralty.io/parent-cluster-id":   "id-of-c1",
				"multicluster.admiralty.io/parent-cluster-name": "c1",
				"multicluster.admiralty.io/target-id":           targetID,
				"multicluster.admiralty.io/target-hash":         targetHash,
			},
			Annotations: map[string]string{
				"example.com/note":                           "kept",
				"multicluster.admiralty.io/parent-name":      "web",
				"multicluster.admiralty.io/parent-namespace": "default",
				"multicluster.admiralty.io/proof":            "v1.key.mac",
				"multicluster.admiralty.io/revision":         "0-b54f1f0d315ad2bb",
			},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{gpuToleration},
			Affinity: gpuAffinity, SchedulerName: "volcano",
			Containers:        []corev1.Container{{Name: "main", Image: "whoami"}},
			RestartPolicy:     corev1.RestartPolicyAlways,
			PriorityClassName: "high", RuntimeClassName: ptr.To("gvisor"),
			ServiceAccountName: "builder", DeprecatedServiceAccount: "builder",
			Hostname: "web-0", Subdomain: "web", TerminationGracePeriodSeconds: ptr.To(int64(7)),
		},
	}
	got := mustChaperon(t, proxy)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected PodChaperon (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, proxy); diff != "" {
		t.Errorf("Chaperon changed the proxy (-before +after):\n%s", diff)
	}
}

func TestDelegatesCanKeepTheirLabels(t *testing.T) {
	pod := elected(map[string]string{v1alpha1.AnnotationNoPrefixLabelRegexp: "^tier="}, nil)
	pod.Labels = map[string]string{
		"app": "web", "a.io/app": "other", "tier": "front", own + "parent-uid": "forged", own + "mine": "x",
	}
	to := destination()
	to.KeepLabels = true
	chaperon, err := translate.Chaperon(mustProxy(t, pod), source(), to)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"app": "web", "a.io/app": "other", "tier": "front", own + "mine": "x",
		own + "app": "other", own + "app-863f": "web", own + "parent-uid-7a57": "forged",
	}
	if diff := cmp.Diff(want, labelsOfDelegate(chaperon)); diff != "" {
		t.Errorf("unexpected labels (-want +got):\n%s", diff)
	}
	if _, noted := chaperon.Annotations[v1alpha1.AnnotationKeepsLabels]; !noted {
		t.Error("the PodChaperon does not say that it keeps labels")
	}
	if uid := chaperon.Labels[v1alpha1.LabelParentUID]; uid != "0123" {
		t.Errorf("label %s=%q, want that of the proxy", v1alpha1.LabelParentUID, uid)
	}
}

func TestChaperonOfAnUnnamedCluster(t *testing.T) {
	chaperon, err := translate.Chaperon(
		mustProxy(t, elected(nil, nil)),
		translate.Source{ClusterID: "id"},
		destination(),
	)
	if err != nil {
		t.Fatalf("Chaperon: %v", err)
	}
	if name, ok := chaperon.Labels[v1alpha1.LabelParentClusterName]; ok {
		t.Errorf("label %s=%q, want none", v1alpha1.LabelParentClusterName, name)
	}
}

func TestADelegateHasNoProof(t *testing.T) {
	chaperon := mustChaperon(t, mustProxy(t, elected(nil, nil)))
	if proof := chaperon.Annotations[v1alpha1.AnnotationProof]; proof != destination().Proof {
		t.Errorf("the PodChaperon has the proof %q, want %q", proof, destination().Proof)
	}
	if proof, ok := translate.Delegate(chaperon).Annotations[v1alpha1.AnnotationProof]; ok {
		t.Errorf("the delegate has the proof %q, want none", proof)
	}
}

func TestAUserCannotSetTheProof(t *testing.T) {
	proxy := mustProxy(t, elected(map[string]string{v1alpha1.AnnotationProof: "forged"}, nil))
	chaperon, err := translate.Chaperon(proxy, source(), translate.Destination{})
	if err != nil {
		t.Fatal(err)
	}
	if proof, ok := chaperon.Annotations[v1alpha1.AnnotationProof]; ok {
		t.Errorf("the PodChaperon has the proof %q of the user, want none", proof)
	}
}

func TestChaperonErrors(t *testing.T) {
	for name, change := range map[string]map[string]string{
		"constraints with an unknown field": {v1alpha1.AnnotationOriginalConstraints: `{"x":1}`},
		"constraints that are not JSON":     {v1alpha1.AnnotationOriginalConstraints: `x`},
		"no constraints":                    {v1alpha1.AnnotationOriginalConstraints: ``},
		"a broken regular expression":       {v1alpha1.AnnotationNoPrefixLabelRegexp: `(`},
		"an unknown identity":               {v1alpha1.AnnotationPodIdentity: `both`},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := mustProxy(t, elected(nil, nil))
			for k, v := range change {
				proxy.Annotations[k] = v
			}
			if chaperon, err := translate.Chaperon(proxy, source(), destination()); err == nil {
				t.Errorf("Chaperon = %v, want an error", chaperon)
			}
		})
	}
}

func TestChaperonServiceAccountTokens(t *testing.T) {
	const path = "/var/run/secrets/kubernetes.io/serviceaccount"
	token := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
			},
		}}}
	}
	secret := func(name, secretName string) corev1.Volume {
		return corev1.Volume{
			Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secretName}},
		}
	}
	configs := token("kube-api-access-configs")
	configs.Projected.Sources = []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{}}}
	elsewhere := token("kube-api-access-vault")
	elsewhere.Projected.Sources[0].ServiceAccountToken.Audience = "vault"
	for name, tc := range map[string]struct {
		volume corev1.Volume
		path   string
		kept   bool
		off    bool // The pod asks for no automatic token.
	}{
		"a token of such a name for another audience stays": {volume: elsewhere, path: "/vault", kept: true},
		"a token of such a name stays if no automatic one is wanted": {
			volume: token("kube-api-access-x7k2p"), path: path, kept: true, off: true,
		},
		"an automatic projected token goes": {volume: token("kube-api-access-x7k2p"), path: path},
		"an automatic secret token goes": {
			volume: secret("builder-token-x7k2p", "builder-token-x7k2p"), path: path,
		},
		"the user's own projected token stays":             {volume: token("vault"), path: "/vault", kept: true},
		"the user's own projected token at our path stays": {volume: token("mine"), path: path, kept: true},
		"another projection of such a name stays":          {volume: configs, path: "/configs", kept: true},
		"a secret of such a name elsewhere stays": {
			volume: secret("builder-token-x7k2p", "builder-token-x7k2p"), path: "/x", kept: true,
		},
		"another account's secret stays": {
			volume: secret("other-token-x7k2p", "other-token-x7k2p"), path: path, kept: true,
		},
		"an ordinary secret stays": {
			volume: secret("builder-token-mine", "mine"), path: path, kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			data := corev1.VolumeMount{Name: "data", MountPath: "/data"}
			mounts := []corev1.VolumeMount{data, {Name: tc.volume.Name, MountPath: tc.path}}
			proxy := mustProxy(t, elected(nil, func(spec *corev1.PodSpec) {
				spec.ServiceAccountName = "builder"
				spec.AutomountServiceAccountToken = new(!tc.off)
				spec.Volumes = []corev1.Volume{{Name: "data"}, tc.volume}
				spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: mounts}}
				spec.Containers[0].VolumeMounts = mounts
			}))
			wantVolumes, wantMounts := []corev1.Volume{{Name: "data"}}, []corev1.VolumeMount{data}
			if tc.kept {
				wantVolumes, wantMounts = append(wantVolumes, tc.volume), mounts
			}
			spec := mustChaperon(t, proxy).Spec
			if diff := cmp.Diff(wantVolumes, spec.Volumes); diff != "" {
				t.Errorf("unexpected volumes (-want +got):\n%s", diff)
			}
			for _, c := range []corev1.Container{spec.InitContainers[0], spec.Containers[0]} {
				if diff := cmp.Diff(wantMounts, c.VolumeMounts); diff != "" {
					t.Errorf("unexpected mounts of %s (-want +got):\n%s", c.Name, diff)
				}
			}
		})
	}
}

func TestDelegateOfAPodChaperon(t *testing.T) {
	chaperon := mustChaperon(t, mustProxy(t, elected(map[string]string{"example.com/note": "kept"}, constrained)))
	chaperon.UID = "uid-of-chaperon"
	chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod] = "0"
	chaperon.Annotations[v1alpha1.AnnotationWithdrawn] = ""
	before := chaperon.DeepCopy()
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: chaperon.Name, Namespace: "default", Labels: before.Labels,
			Annotations: map[string]string{
				"example.com/note":                           "kept",
				"multicluster.admiralty.io/parent-name":      "web",
				"multicluster.admiralty.io/parent-namespace": "default",
				"multicluster.admiralty.io/revision":         translate.RevisionOf(chaperon).String(),
				"multicluster.admiralty.io/applied": `{"annotations/example.com/note":"4cb7a5ce5c08",` +
					`"image/main":"6f75e753abd4","labels/multicluster.admiralty.io/app":"bde1489624c3",` +
					`"tolerations":"2af2ea9e8f41"}`,
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "multicluster.admiralty.io/v1alpha1", Kind: "PodChaperon", Name: chaperon.Name,
				UID:        "uid-of-chaperon",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: before.Spec,
	}
	delegate := translate.Delegate(chaperon)
	if diff := cmp.Diff(want, delegate); diff != "" {
		t.Errorf("unexpected delegate (-want +got):\n%s", diff)
	}
	delegate.Labels["x"], delegate.Annotations["x"], delegate.Spec.NodeSelector["x"] = "y", "y", "y"
	if diff := cmp.Diff(before, chaperon); diff != "" {
		t.Errorf("the delegate shares memory with its PodChaperon (-before +after):\n%s", diff)
	}
	if translate.Elected(delegate) || translate.IsProxy(delegate) {
		t.Error("a delegate must not be elected in its turn")
	}
}
