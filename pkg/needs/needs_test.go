package needs

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestOfFindsAllReferencesThatKubernetesFinds(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(.3).NumElements(0, 4).MaxDepth(20)
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]int{}
	for range 600 {
		pod := &corev1.Pod{}
		filler.Fill(&pod.Spec)
		oneSourceEach(pod, random)
		want := map[Ref]bool{}
		podutil.VisitPodSecretNames(pod, func(name string) bool {
			want[Ref{Secrets, name}] = true
			return true
		})
		podutil.VisitPodConfigmapNames(pod, func(name string) bool {
			want[Ref{ConfigMaps, name}] = true
			return true
		})
		// No object's name.
		maps.DeleteFunc(want, func(r Ref, _ bool) bool { return strings.ContainsAny(r.Name, ",/?") })
		got := map[Ref]bool{}
		for _, need := range Of(pod) {
			seen[string(need.Resource)]++
			if need.Resource == Secrets || need.Resource == ConfigMaps {
				got[need.Ref] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("references (-Kubernetes +ours):\n%s", diff)
		}
	}
	for _, resource := range []Resource{ConfigMaps, Secrets, ServiceAccounts, PersistentVolumeClaims} {
		if seen[string(resource)] < 20 {
			t.Errorf("only %d references to %s: the pods are too simple to prove anything", seen[string(resource)],
				resource)
		}
	}
}

// oneSourceEach reduces each volume to one source, because API servers allow only one.
func oneSourceEach(pod *corev1.Pod, random *rand.Rand) {
	for i := range pod.Spec.Volumes {
		sources := reflect.ValueOf(&pod.Spec.Volumes[i].VolumeSource).Elem()
		var set []int
		for field := range sources.NumField() {
			if !sources.Field(field).IsNil() {
				set = append(set, field)
			}
		}
		if len(set) == 0 {
			continue
		}
		kept := set[random.IntN(len(set))]
		for _, field := range set {
			if field != kept {
				sources.Field(field).SetZero()
			}
		}
	}
}

func TestObjectsThatAPodRefersTo(t *testing.T) {
	env := func(name string, optional *bool) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: optional,
			},
		}}
	}
	secretVolume := func(name string, optional *bool) corev1.Volume {
		return corev1.Volume{
			Name:         name,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: optional}},
		}
	}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want []Need
	}{
		"a pod that refers to nothing": {},
		"a service account is not optional": {
			spec: corev1.PodSpec{ServiceAccountName: "robot"}, want: []Need{{Ref{ServiceAccounts, "robot"}, false}},
		},
		"the default service account is each cluster's own": {spec: corev1.PodSpec{ServiceAccountName: "default"}},
		"pull secrets are optional, because a kubelet pulls without them": {
			spec: corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
			want: []Need{{Ref{Secrets, "registry"}, true}},
		},
		"an object is not optional if one reference is not, in any order": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{
						Env: []corev1.EnvVar{
							env("a", ptr.To(true)), env("a", nil), env("b", nil), env("b", ptr.To(true)),
						},
					},
				},
			},
			want: []Need{{Ref{ConfigMaps, "a"}, false}, {Ref{ConfigMaps, "b"}, false}},
		},
		"an object is optional if all references are, and is listed once": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{{Env: []corev1.EnvVar{env("a", ptr.To(true))}}},
				EphemeralContainers: []corev1.EphemeralContainer{
					{
						EphemeralContainerCommon: corev1.EphemeralContainerCommon{
							Env: []corev1.EnvVar{env("a", ptr.To(true))},
						},
					},
				},
			},
			want: []Need{{Ref{ConfigMaps, "a"}, true}},
		},
		"a pod with volumes": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("b", nil), secretVolume("a", ptr.To(true)), {
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
				},
			}}},
			want: []Need{
				{Ref{PersistentVolumeClaims, "data"}, false}, {Ref{Secrets, "a"}, true}, {Ref{Secrets, "b"}, false},
			},
		},
		"the certificates that every cluster has of its own are left out": {
			spec: corev1.PodSpec{
				Containers: []corev1.Container{
					{Env: []corev1.EnvVar{env("kube-root-ca.crt", nil), env("openshift-service-ca.crt", nil)}},
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(&corev1.Pod{Spec: test.spec})
			if len(got) == 0 && len(test.want) == 0 {
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFollowedObjects(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: "robot",
		ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "registry"}},
		Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
			{
				ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
				},
			},
		}}},
		Volumes: []corev1.Volume{{
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			},
		}},
	}}
	for name, test := range map[string]struct {
		existing *string
		want     string
	}{
		"without the annotation, all but claims": {
			want: "configmaps/settings,secrets/registry?,serviceaccounts/robot",
		},
		"a listed object is left out": {
			existing: ptr.To("secrets/registry"), want: "configmaps/settings,serviceaccounts/robot",
		},
		"spaces in the list do not matter": {
			existing: ptr.To(" secrets/registry , configmaps/settings "), want: "serviceaccounts/robot",
		},
		"an empty annotation leaves out all but service accounts": {
			existing: ptr.To(""), want: "serviceaccounts/robot",
		},
		"an object with a listed name and another kind is followed": {
			existing: ptr.To("configmaps/registry"),
			want:     "configmaps/settings,secrets/registry?,serviceaccounts/robot",
		},
		"an invalid annotation lists nothing": {
			existing: ptr.To("registry"), want: "configmaps/settings,secrets/registry?,serviceaccounts/robot",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := pod.DeepCopy()
			if test.existing != nil {
				pod.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: *test.existing}
			}
			if got := Format(Followed(pod)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestValidateExisting(t *testing.T) {
	for value, valid := range map[string]bool{
		"": true, "secrets/a": true, "secrets/a,configmaps/b": true, "resourceclaims/a,resourceclaimtemplates/b": true,
		"a": false, "secrets/": false, "pods/a": false, "serviceaccounts/a": false, "secrets/a,": false,
		"Secrets/a": false,
	} {
		if err := ValidateExisting(value); (err == nil) != valid {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestParseReturnsTheFormattedNeeds(t *testing.T) {
	for _, want := range [][]Need{
		nil,
		{{Ref{ConfigMaps, "a"}, false}},
		{{Ref{ConfigMaps, "a.b-c"}, true}, {Ref{Secrets, "d"}, false}, {Ref{ServiceAccounts, "e"}, true}},
	} {
		if diff := cmp.Diff(want, Parse(Format(want))); diff != "" {
			t.Errorf("needs (-before +after):\n%s", diff)
		}
	}
}

func TestOfIgnoresNamesThatNoObjectCanHave(t *testing.T) {
	pod := &corev1.Pod{}
	for _, name := range []string{"a,secrets/b", "a/b", "a?", "fine"} {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if diff := cmp.Diff([]Need{{Ref{Secrets, "fine"}, true}}, Of(pod)); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
}

func TestErrorMessages(t *testing.T) {
	for want, err := range map[string]error{
		`Secret "db" does not exist in namespace "shop": the pod cannot start without`: &MissingError{
			"shop", []Ref{{Secrets, "db"}},
		},
		`ConfigMap "a", Secret "db" do not exist in namespace "shop": the pod cannot start without`: &MissingError{
			"shop", []Ref{{ConfigMaps, "a"}, {Secrets, "db"}},
		},
		`Secret "db" exists there and does not come from this cluster`: &RefusedError{
			Ref: Ref{Secrets, "db"}, Reason: "exists there and does not come from this cluster",
		},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestKindOfEachResource(t *testing.T) {
	got := map[Resource]string{}
	for _, r := range []Resource{ConfigMaps, Secrets, ServiceAccounts, PersistentVolumeClaims, "others"} {
		got[r] = r.Kind()
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(r Resource) bool {
		return r != "others" &&
			!strings.EqualFold(got[r]+"s", string(r))
	}) {
		t.Errorf("names: %v", got)
	}
}
