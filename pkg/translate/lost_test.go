package translate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// rich is a spec with fields of every form.
func rich() *corev1.PodSpec {
	return &corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyAlways,
		HostUsers:     ptr.To(false),
		NodeSelector:  map[string]string{"a": "1", "b": "2"},
		Tolerations:   []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}, {Key: "b"}},
		Volumes: []corev1.Volume{
			{Name: "empty", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(1, resource.BinarySI)},
			}},
			{Name: "certificate", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{
					PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/signer"},
				}, {DownwardAPI: &corev1.DownwardAPIProjection{
					Items: []corev1.DownwardAPIVolumeFile{{Path: "labels"}},
				}}},
			}}},
		},
		Containers: []corev1.Container{
			{Name: "first", Image: "one", Args: []string{"a", "b"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}}},
			{
				Name: "second", Image: "two",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					HTTPGet: &corev1.HTTPGetAction{
						Port: intstr.FromString("http"), Protocol: ptr.To(corev1.HTTPProtocolHTTP2),
					},
				}},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "empty", MountPath: "/a"}, {Name: "empty", MountPath: "/b", SubPath: "b"},
				},
			},
		},
	}
}

func TestFieldsThatAnAPIServerDropsAreFound(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.PodSpec)
		want   []string
	}{
		"the same":     {func(*corev1.PodSpec) {}, nil},
		"a text":       {func(s *corev1.PodSpec) { s.RestartPolicy = "" }, []string{"spec.restartPolicy"}},
		"other values": {func(s *corev1.PodSpec) { s.Containers[0].Image, s.HostUsers = "other", ptr.To(true) }, nil},
		"another probe": {func(s *corev1.PodSpec) {
			s.Containers[1].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{}}
			s.Containers[1].ReadinessProbe.Exec.Command = []string{"true"}
		}, nil},
		"a probe without a handler": {func(s *corev1.PodSpec) {
			s.Containers[1].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{}
		}, []string{"spec.containers[second].readinessProbe.httpGet"}},
		"another volume": {func(s *corev1.PodSpec) {
			s.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a"}}
		}, nil},
		"another source of a variable": {func(s *corev1.PodSpec) {
			s.Containers[0].Env[0].Value = ""
			s.Containers[0].Env[0].ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}
		}, nil},
		"a variable without a value": {func(s *corev1.PodSpec) {
			s.Containers[0].Env[0].Value = ""
		}, []string{"spec.containers[first].env[A].value"}},
		"another, shorter command": {func(s *corev1.PodSpec) { s.Containers[0].Args = []string{"c"} }, nil},
		"no command": {
			func(s *corev1.PodSpec) { s.Containers[0].Args = nil }, []string{"spec.containers[first].args"},
		},
		"merged tolerations": {func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, nil},
		"a pointer to a value that is the zero value": {
			func(s *corev1.PodSpec) { s.HostUsers = nil }, []string{"spec.hostUsers"},
		},
		"a field of an embedded struct": {
			func(s *corev1.PodSpec) { s.Volumes[0].EmptyDir = nil }, []string{"spec.volumes[empty].emptyDir"},
		},
		"a quantity": {
			func(s *corev1.PodSpec) { s.Volumes[0].EmptyDir.SizeLimit = nil },
			[]string{"spec.volumes[empty].emptyDir.sizeLimit"},
		},
		"a source of a volume": {
			func(s *corev1.PodSpec) { s.Volumes[1].Projected.Sources[0].PodCertificate = nil },
			[]string{"spec.volumes[certificate].projected.sources[0].podCertificate"},
		},
		"a key of a map": {
			func(s *corev1.PodSpec) { delete(s.NodeSelector, "b") }, []string{"spec.nodeSelector[b]"},
		},
		"a key of resources": {
			func(s *corev1.PodSpec) { s.Containers[1].Resources.Limits = corev1.ResourceList{"memory": {}} },
			[]string{"spec.containers[second].resources.limits[cpu]"},
		},
		"a field deep inside": {
			func(s *corev1.PodSpec) { s.Containers[1].ReadinessProbe.HTTPGet.Protocol = nil },
			[]string{"spec.containers[second].readinessProbe.httpGet.protocol"},
		},
		"a port that became a number": {
			func(s *corev1.PodSpec) { s.Containers[1].ReadinessProbe.HTTPGet.Port = intstr.FromInt32(80) }, nil,
		},
		"an element of a list, by its key": {
			func(s *corev1.PodSpec) { s.Containers[1].VolumeMounts = s.Containers[1].VolumeMounts[:1] },
			[]string{"spec.containers[second].volumeMounts[/b]"},
		},
		"an element of a list without keys": {
			func(s *corev1.PodSpec) { s.Volumes[1].Projected.Sources = s.Volumes[1].Projected.Sources[:1] },
			[]string{"spec.volumes[certificate].projected.sources"},
		},
		"a webhook that adds a container in front, a volume, a mount and a toleration": {
			func(s *corev1.PodSpec) {
				s.Containers = append([]corev1.Container{{Name: "sidecar"}}, s.Containers...)
				s.Volumes = append([]corev1.Volume{{Name: "token"}}, s.Volumes...)
				s.Containers[2].VolumeMounts = append(
					[]corev1.VolumeMount{{Name: "token", MountPath: "/token"}}, s.Containers[2].VolumeMounts...)
				s.Tolerations = append([]corev1.Toleration{{Key: "c"}}, s.Tolerations...)
			}, nil,
		},
		"a field of a container that is not in its place": {
			func(s *corev1.PodSpec) {
				s.Containers = append([]corev1.Container{{Name: "sidecar"}}, s.Containers...)
				s.Containers[2].VolumeMounts[1].SubPath = ""
			}, []string{"spec.containers[second].volumeMounts[/b].subPath"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored := rich()
			test.change(stored)
			if diff := cmp.Diff(test.want, LostFields(rich(), stored)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAnEmptyObjectIsNotLost(t *testing.T) {
	wished := &corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{}, Affinity: &corev1.Affinity{}}
	if got := LostFields(wished, &corev1.PodSpec{}); len(got) > 0 {
		t.Errorf("%v are lost", got)
	}
}

func TestADefaultThatSaysWhatOlderKubeletsDoIsNotLost(t *testing.T) {
	probe := func(protocol *corev1.HTTPProtocol, mode *corev1.GRPCProbeMode) *corev1.PodSpec {
		return &corev1.PodSpec{Containers: []corev1.Container{{
			Name: "a",
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Protocol: protocol},
			}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				GRPC: &corev1.GRPCAction{Port: 1, Mode: mode},
			}},
		}}}
	}
	none := probe(nil, nil)
	wished := probe(ptr.To(corev1.HTTPProtocolHTTP1), ptr.To(corev1.GRPCProbeModePlaintext))
	if got := LostFields(wished, none); len(got) > 0 {
		t.Errorf("%v are lost", got)
	}
	wished = probe(ptr.To(corev1.HTTPProtocolHTTP2), ptr.To(corev1.GRPCProbeModeTLS))
	if got := LostFields(wished, none); len(got) != 2 {
		t.Errorf("only %v are lost", got)
	}
}

func TestLostFieldsAreFew(t *testing.T) {
	wished := &corev1.PodSpec{NodeSelector: map[string]string{}}
	for i := range 2 * MaxLostFields {
		wished.NodeSelector[fmt.Sprint(i)] = "x"
	}
	stored := &corev1.PodSpec{NodeSelector: map[string]string{"y": "z"}}
	if got := LostFields(wished, stored); len(got) != MaxLostFields {
		t.Errorf("%d fields are lost: %v", len(got), got)
	}
}

func BenchmarkLostFields(b *testing.B) {
	wished, stored := rich(), rich()
	for b.Loop() {
		LostFields(wished, stored)
	}
}
