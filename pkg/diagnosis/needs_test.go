package diagnosis

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"requests only": {proxy(nil), []string{"cpu 2, memory 4Gi"}},
		"no requests":   {proxy(func(p *corev1.Pod) { p.Spec.Containers = nil }), []string{"nothing"}},
		"requests, all constraints and a priority": {proxy(func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationOriginalConstraints] = `{"nodeSelector":{"disk":"ssd","arch":"arm64"},
				"tolerations":[
					{"key":"gpu","value":"true","effect":"NoSchedule"},{"operator":"Exists"},
					{"key":"node.kubernetes.io/not-ready","operator":"Exists"}],
				"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
					{"matchExpressions":[
						{"key":"zone","operator":"In","values":["a","b"]},{"key":"gpu","operator":"Exists"}]},
					{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]}}},
				"topologySpreadConstraints":[
					{"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule","maxSkew":1},
					{"topologyKey":"x","whenUnsatisfiable":"ScheduleAnyway","maxSkew":1}]}`
			p.Spec.NodeSelector["region"] = "eu"
			p.Spec.Priority = ptr.To[int32](1000)
		}), []string{
			"cpu 2, memory 4Gi",
			"in the target, node selector arch=arm64,disk=ssd",
			"in the target, node affinity zone In a|b and gpu Exists, or metadata.name In n1",
			"in the target, tolerates gpu=true:NoSchedule, everything",
			"in the target, spread over zone",
			"of virtual nodes, node selector region=eu",
			"priority 1000",
		}},
		"an annotation that was changed by hand": {
			proxy(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationOriginalConstraints] = "" }),
			[]string{
				"cpu 2, memory 4Gi",
				"an annotation that cannot be read: metadata.annotations[" + v1alpha1.AnnotationOriginalConstraints +
					`]: Invalid value: "": must not be empty`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Needs(test.pod)); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContainersThatDoNotRun(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	terminated := func(code int32, reason, message string) corev1.ContainerState {
		return corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message},
		}
	}
	for name, test := range map[string]struct {
		status corev1.ContainerStatus
		want   []Container
	}{
		"a running container": {
			corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, nil,
		},
		"a container that succeeded": {corev1.ContainerStatus{State: terminated(0, "Completed", "")}, nil},
		"a missing image": {
			corev1.ContainerStatus{State: waiting("ErrImagePull", "not found")},
			[]Container{{Reason: "ErrImagePull", Message: "not found"}},
		},
		"a container that failed": {
			corev1.ContainerStatus{State: terminated(1, "Error", "oops")},
			[]Container{{Reason: "Error", Message: "oops"}},
		},
		"an image without the architecture, pulled by Docker": {
			corev1.ContainerStatus{
				State: waiting("ErrImagePull", "no matching manifest for linux/arm64 in the manifest list entries"),
			},
			[]Container{{
				Reason: "ErrImagePull", Hint: hintArchitecture,
				Message: "no matching manifest for linux/arm64 in the manifest list entries",
			}},
		},
		"an image of another architecture, once": {
			corev1.ContainerStatus{State: terminated(128, "StartError", "exec /app: exec format error")},
			[]Container{{Reason: "StartError", Message: "exec /app: exec format error", Hint: hintArchitecture}},
		},
		"an image of another architecture, in a crash loop": {
			corev1.ContainerStatus{
				State:                waiting("CrashLoopBackOff", "back-off"),
				LastTerminationState: terminated(128, "StartError", "exec format error"),
			},
			[]Container{{Reason: "CrashLoopBackOff", Message: "back-off", Hint: hintArchitecture}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{test.status}}}
			if diff := cmp.Diff(test.want, Containers(pod)); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}
