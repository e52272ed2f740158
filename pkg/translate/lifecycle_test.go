package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestFieldsAboutTheLifeOfAPodReachItsDelegate has fields that the delegate's kubelet acts upon.
func TestFieldsAboutTheLifeOfAPodReachItsDelegate(t *testing.T) {
	command := &corev1.ExecAction{Command: []string{"true"}}
	get := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}
	stopped := func(how *corev1.LifecycleHandler) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: how} }
	}
	rules := []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
	for name, change := range map[string]func(*corev1.PodSpec){
		"nothing":        func(*corev1.PodSpec) {},
		"restart policy": func(spec *corev1.PodSpec) { spec.RestartPolicy = corev1.RestartPolicyOnFailure },
		"restart policy of a container": func(spec *corev1.PodSpec) {
			spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		},
		"restart rules": func(spec *corev1.PodSpec) {
			spec.Containers[0].RestartPolicy = new(corev1.ContainerRestartPolicyNever)
			spec.Containers[0].RestartPolicyRules = rules
		},
		"sidecar": func(spec *corev1.PodSpec) {
			spec.InitContainers = []corev1.Container{
				{Name: "sidecar", Image: "i", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Name: "init"},
			}
		},
		"startup probe": func(spec *corev1.PodSpec) {
			spec.Containers[0].StartupProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{HTTPGet: get}, FailureThreshold: 30,
				TerminationGracePeriodSeconds: new(int64(3)),
			}
		},
		"stop by a command": stopped(&corev1.LifecycleHandler{Exec: command}),
		"stop by HTTP":      stopped(&corev1.LifecycleHandler{HTTPGet: get}),
		"stop by sleep":     stopped(&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}),
		"stop signal": func(spec *corev1.PodSpec) {
			spec.OS = &corev1.PodOS{Name: corev1.Linux}
			spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)}
		},
		"grace period": func(spec *corev1.PodSpec) { spec.TerminationGracePeriodSeconds = new(int64(77)) },
		"deadline":     func(spec *corev1.PodSpec) { spec.ActiveDeadlineSeconds = new(int64(77)) },
		"host network": func(spec *corev1.PodSpec) { spec.HostNetwork = true },
		"amounts": func(spec *corev1.PodSpec) {
			list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		},
		"amounts of the pod": func(spec *corev1.PodSpec) {
			list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			spec.Resources = &corev1.ResourceRequirements{Requests: list}
		},
		"resource claims": func(spec *corev1.PodSpec) {
			spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
			spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			here := map[string]string{v1alpha1.AnnotationUseExisting: ""} // The targets have the claim.
			plain, changed := elected(here, func(*corev1.PodSpec) {}), elected(here, change)
			want := mustChaperon(t, mustProxy(t, plain)).Spec
			change(&want)
			if want.HostNetwork {
				want.Hostname = "" // That of the node counts.
			}
			got := translate.Delegate(mustChaperon(t, mustProxy(t, changed))).Spec
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("spec of the delegate (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFieldsAboutTheLifeOfADelegateComeBack has parts of a status by which controllers of the source decide.
func TestFieldsAboutTheLifeOfADelegateComeBack(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 42, Signal: 9, Reason: "OOMKilled", Message: "m", ContainerID: "c",
	}}
	main := func(change func(*corev1.ContainerStatus)) func(*corev1.PodStatus) {
		return func(status *corev1.PodStatus) {
			status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main"}}
			change(&status.ContainerStatuses[0])
		}
	}
	for name, change := range map[string]func(*corev1.PodStatus){
		"exit code": main(func(s *corev1.ContainerStatus) { s.State = ended }),
		"restarts":  main(func(s *corev1.ContainerStatus) { s.RestartCount, s.LastTerminationState = 3, ended }),
		"started":   main(func(s *corev1.ContainerStatus) { s.Started = new(true) }),
		"stop signal": main(func(s *corev1.ContainerStatus) {
			s.StopSignal = new(corev1.SIGUSR1)
		}),
		"user": main(func(s *corev1.ContainerStatus) {
			s.User = &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 7}}
		}),
		"failure": func(status *corev1.PodStatus) {
			status.Phase, status.Reason, status.Message = corev1.PodFailed, "DeadlineExceeded", "late"
		},
		"disruption": func(status *corev1.PodStatus) {
			status.Phase = corev1.PodFailed
			status.Conditions = []corev1.PodCondition{is(corev1.DisruptionTarget, corev1.ConditionTrue, 5)}
		},
		"dual stack": func(status *corev1.PodStatus) {
			status.PodIP, status.PodIPs = "10.1.0.9", []corev1.PodIP{{IP: "10.1.0.9"}, {IP: "fd00::9"}}
			status.HostIP, status.HostIPs = "10.0.0.9", []corev1.HostIP{{IP: "10.0.0.9"}, {IP: "fd00::1:9"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			delegate := corev1.PodStatus{Phase: corev1.PodRunning}
			change(&delegate)
			want := *delegate.DeepCopy()
			want.QOSClass = corev1.PodQOSBurstable
			want.Conditions = append(want.Conditions, is(corev1.PodScheduled, corev1.ConditionTrue, 9))
			if diff := cmp.Diff(want, translate.ProxyStatus(bound(), delegate)); diff != "" {
				t.Errorf("status of the proxy (-want +got):\n%s", diff)
			}
		})
	}
}
