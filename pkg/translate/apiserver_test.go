package translate_test

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// internal returns the pod as API servers have it, with defaults.
func internal(t *testing.T, pod *corev1.Pod) *core.Pod {
	t.Helper()
	pod = pod.DeepCopy()
	apiv1.SetObjectDefaults_Pod(pod)
	out := &core.Pod{}
	if err := apiv1.Convert_v1_Pod_To_core_Pod(pod, out, nil); err != nil {
		t.Fatalf("converting: %v", err)
	}
	return out
}

func expectValid(t *testing.T, what string, errs field.ErrorList) {
	t.Helper()
	if len(errs) > 0 {
		t.Errorf("API servers refuse %s: %v", what, errs.ToAggregate())
	}
}

// demanding returns a valid elected pod that uses everything that is translated.
func demanding() *corev1.Pod {
	pod := elected(map[string]string{
		v1alpha1.AnnotationProxyConstraints:    chosenByAnnotation,
		v1alpha1.AnnotationNoPrefixLabelRegexp: "^tier=",
	}, func(spec *corev1.PodSpec) {
		constrained(spec)
		spec.Affinity.PodAntiAffinity, spec.Affinity.PodAffinity = apart.DeepCopy(), together.DeepCopy()
		spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"pod-template-hash"}
		spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
		spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageReadFile
		spec.Containers[0].Env = []corev1.EnvVar{{Name: "INDEX", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: "metadata.labels['batch.kubernetes.io/job-completion-index']",
			},
		}}}
		spec.Volumes = []corev1.Volume{{Name: "pod", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files(everyField...)},
		}}, {Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: files(everyField...)}},
			},
		}}}}
		spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gateType}}
		spec.Priority, spec.PriorityClassName = ptr.To(int32(3)), "high"
	})
	pod.Labels = map[string]string{
		"app": "web", "app.kubernetes.io/app": "other", "tier": "front", "pod-template-hash": "1",
		"batch.kubernetes.io/job-completion-index": "4",
	}
	return pod
}

// everyField is the fields of a pod that files may show.
var everyField = []string{
	"metadata.name", "metadata.uid", "metadata.namespace", "metadata.labels", "metadata.labels['app']",
	"metadata.labels['absent']", "metadata.annotations", "metadata.annotations['a.io/Upper_Case']",
	"metadata.annotations['" + v1alpha1.AnnotationElect + "']",
}

func files(fields ...string) []corev1.DownwardAPIVolumeFile {
	var files []corev1.DownwardAPIVolumeFile
	for i, path := range fields {
		files = append(files, corev1.DownwardAPIVolumeFile{
			Path: strconv.Itoa(i), FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
		})
	}
	return files
}

func TestAPIServersAcceptHostNames(t *testing.T) {
	long := strings.Repeat("x", 63)
	for _, name := range []string{"db-0", "db.eu", long + "-0", long[:61] + "-.", "a." + long, "0.1.2", "1"} {
		pod := demanding()
		pod.Name = strings.TrimRight(name, "-.")
		proxy := mustProxy(t, pod)
		delegate := translate.Delegate(mustChaperon(t, proxy))
		delegate.OwnerReferences = nil
		expectValid(t, "the delegate of "+name, validation.ValidatePodCreate(internal(t, delegate),
			validation.PodValidationOptions{ResourceIsPod: true}))
	}
}

func TestAPIServersAcceptProxyAndDelegate(t *testing.T) {
	proxy := mustProxy(t, demanding())
	expectValid(t, "the proxy", validation.ValidatePodCreate(internal(t, proxy),
		validation.PodValidationOptions{ResourceIsPod: true}))
	chaperon := mustChaperon(t, proxy)
	chaperon.UID = "uid"
	delegate := translate.Delegate(chaperon)
	expectValid(t, "the delegate", validation.ValidatePodCreate(internal(t, delegate),
		validation.PodValidationOptions{ResourceIsPod: true}))
}

func TestAPIServersAcceptTheStatusThroughALife(t *testing.T) {
	proxy := bound(is(corev1.DisruptionTarget, corev1.ConditionTrue, 1))
	proxy.ResourceVersion = "1"
	proxy.Spec.RestartPolicy = corev1.RestartPolicyNever
	proxy.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gateType}}
	container := func(state corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{
			Name: "main", State: state,
			AllocatedResourcesStatus: []corev1.ResourceStatus{{Name: "example.com/injected"}},
		}}
	}
	life := []corev1.PodStatus{
		{},
		{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{is(corev1.PodScheduled, corev1.ConditionTrue, 2)}},
		{
			Phase: corev1.PodRunning, PodIP: "10.1.0.1", HostIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}},
			ObservedGeneration: 9, QOSClass: corev1.PodQOSBestEffort, NominatedNodeName: "_",
			ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "unknown"}},
			VolumeHealth:          []corev1.PodVolumeHealth{{Name: "injected"}},
			Conditions: []corev1.PodCondition{
				is(corev1.PodReady, corev1.ConditionTrue, 3), is(v1alpha1.ConditionDelegate, corev1.ConditionFalse, 3),
			},
			ContainerStatuses: container(corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(3, 0)},
			}),
		},
		{
			Phase: corev1.PodFailed,
			ContainerStatuses: container(corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1},
			}),
		},
		{
			Phase:             corev1.PodRunning,
			ContainerStatuses: container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}),
		},
	}
	for _, status := range life {
		next := proxy.DeepCopy()
		next.Status = translate.ProxyStatus(proxy, status)
		expectValid(t, "the status after the delegate's "+string(status.Phase),
			validation.ValidatePodStatusUpdate(internal(t, next), internal(t, proxy),
				validation.PodValidationOptions{ResourceIsPod: true}))
		proxy = next
	}
	if proxy.Status.Phase != corev1.PodFailed {
		t.Errorf("the proxy ends %s, want Failed", proxy.Status.Phase)
	}
}
