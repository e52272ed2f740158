package translate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const gateType = corev1.PodConditionType("example.com/gate")

func at(second int) metav1.Time { return metav1.Unix(int64(second), 0) }

func is(conditionType corev1.PodConditionType, status corev1.ConditionStatus, second int) corev1.PodCondition {
	return corev1.PodCondition{Type: conditionType, Status: status, LastTransitionTime: at(second)}
}

// bound returns a bound proxy with PodScheduled and these conditions.
func bound(conditions ...corev1.PodCondition) *corev1.Pod {
	debug := corev1.EphemeralContainer{}
	debug.Name = "debug"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", Generation: 2},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main"}}, RestartPolicy: corev1.RestartPolicyAlways,
			InitContainers: []corev1.Container{{Name: "init"}}, EphemeralContainers: []corev1.EphemeralContainer{debug},
			Volumes: []corev1.Volume{{Name: "data"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable,
			Conditions: append([]corev1.PodCondition{is(corev1.PodScheduled, corev1.ConditionTrue, 9)}, conditions...),
		},
	}
}

// running returns the status of a delegate with all fields that matter here.
func running(conditions ...corev1.PodCondition) corev1.PodStatus {
	return corev1.PodStatus{
		ObservedGeneration: 7,
		Phase:              corev1.PodRunning, Reason: "Because", Message: "it is so",
		Resize: corev1.PodResizeStatusInProgress,
		HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
		PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}, {IP: "fd00::1"}},
		StartTime:             ptr.To(at(10)),
		NominatedNodeName:     "node-of-target",
		QOSClass:              corev1.PodQOSGuaranteed,
		ResourceClaimStatuses: []corev1.PodResourceClaimStatus{{Name: "gpu"}},
		InitContainerStatuses: withDevice(corev1.ContainerStatus{Name: "init"}),
		ContainerStatuses:     withDevice(corev1.ContainerStatus{Name: "main", Ready: true}),

		EphemeralContainerStatuses: withDevice(corev1.ContainerStatus{Name: "debug"}),
		VolumeHealth:               []corev1.PodVolumeHealth{{Name: "injected"}, {Name: "data"}},
		Conditions:                 conditions,
	}
}

// withDevice returns the status of a container with a device that the target's admission added.
func withDevice(status corev1.ContainerStatus) []corev1.ContainerStatus {
	status.AllocatedResourcesStatus = []corev1.ResourceStatus{{Name: "example.com/injected"}}
	return []corev1.ContainerStatus{status}
}

func TestTheContainersThatATargetAddsAreLeftOut(t *testing.T) {
	named := func(names ...string) []corev1.ContainerStatus {
		var all []corev1.ContainerStatus
		for i, name := range names {
			all = append(all, corev1.ContainerStatus{Name: name, RestartCount: int32(i)})
		}
		return all
	}
	names := func(statuses []corev1.ContainerStatus) []string {
		var all []string
		for i := range statuses {
			all = append(all, fmt.Sprintf("%s %d", statuses[i].Name, statuses[i].RestartCount))
		}
		return all
	}
	for what, test := range map[string]struct{ init, main, debug, wantInit, wantMain, wantDebug []string }{
		"none": {},
		"its own": {
			[]string{"init"}, []string{"main"}, []string{"debug"},
			[]string{"init 0"}, []string{"main 0"}, []string{"debug 0"},
		},
		"a mesh's": {
			[]string{"mesh-init", "init", "sidecar"}, []string{"app", "main", "proxy"}, []string{"theirs", "debug"},
			[]string{"init 1"}, []string{"main 1"}, []string{"debug 1"},
		},
		"twice":            {nil, []string{"main", "main"}, nil, nil, []string{"main 0"}, nil},
		"in another place": {[]string{"main"}, []string{"init"}, []string{"main"}, nil, nil, nil},
	} {
		t.Run(what, func(t *testing.T) {
			delegate := running()
			delegate.InitContainerStatuses, delegate.ContainerStatuses = named(test.init...), named(test.main...)
			delegate.EphemeralContainerStatuses = named(test.debug...)
			got := translate.ProxyStatus(bound(), delegate)
			for _, pair := range [][2][]string{
				{test.wantInit, names(got.InitContainerStatuses)}, {test.wantMain, names(got.ContainerStatuses)},
				{test.wantDebug, names(got.EphemeralContainerStatuses)},
			} {
				if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
					t.Errorf("containers (-want +got):\n%s", diff)
				}
			}
		})
	}
	unknown := bound()
	unknown.Spec.Containers, unknown.Spec.InitContainers = nil, nil
	if got := translate.ProxyStatus(unknown, running()); len(got.InitContainerStatuses) != 1 {
		t.Errorf("without a spec the statuses are %v", got.InitContainerStatuses)
	}
}

func TestProxyStatusFields(t *testing.T) {
	proxy := bound()
	proxy.Status.ObservedGeneration = 1
	proxy.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "own"}}
	delegate := running()
	want := running()
	want.ObservedGeneration = 1
	want.NominatedNodeName = ""
	want.QOSClass = corev1.PodQOSBurstable
	want.ResourceClaimStatuses = proxy.Status.ResourceClaimStatuses
	want.InitContainerStatuses[0].AllocatedResourcesStatus = nil
	want.ContainerStatuses[0].AllocatedResourcesStatus = nil
	want.EphemeralContainerStatuses[0].AllocatedResourcesStatus = nil
	want.VolumeHealth = want.VolumeHealth[1:]
	want.Resize = ""
	want.Conditions = []corev1.PodCondition{is(corev1.PodScheduled, corev1.ConditionTrue, 9)}

	before, delegateBefore := proxy.DeepCopy(), delegate.DeepCopy()
	if diff := cmp.Diff(want, translate.ProxyStatus(proxy, delegate)); diff != "" {
		t.Errorf("unexpected status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, proxy) + cmp.Diff(delegateBefore, &delegate); diff != "" {
		t.Errorf("ProxyStatus changed its arguments (-before +after):\n%s", diff)
	}
}

func TestProxyStatusConditions(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	scheduled := is(corev1.PodScheduled, yes, 9)
	observed := func(c corev1.PodCondition, generation int64) corev1.PodCondition {
		c.ObservedGeneration = generation
		return c
	}
	notReadyBecause := func(second int, message string) corev1.PodCondition {
		c := is(corev1.PodReady, no, second)
		c.Reason, c.Message = "ReadinessGatesNotReady", message
		return c
	}
	for name, tc := range map[string]struct {
		gated    bool
		proxy    []corev1.PodCondition // beside PodScheduled
		delegate []corev1.PodCondition
		want     []corev1.PodCondition
	}{
		"the delegate's conditions come first, PodScheduled is the proxy's": {
			delegate: []corev1.PodCondition{is(corev1.PodScheduled, no, 1), is(corev1.PodReady, yes, 12)},
			want:     []corev1.PodCondition{is(corev1.PodReady, yes, 12), scheduled},
		},
		"the PodChaperon's own condition never reaches the proxy": {
			delegate: []corev1.PodCondition{is(v1alpha1.ConditionDelegate, no, 12)},
			want:     []corev1.PodCondition{scheduled},
		},
		"the proxy shows that the target dropped fields of this delegate": {
			delegate: []corev1.PodCondition{is(v1alpha1.ConditionFields, no, 12)},
			want:     []corev1.PodCondition{is(v1alpha1.ConditionFields, no, 12), scheduled},
		},
		"the proxy loses the condition of fields that an earlier delegate lacked": {
			proxy: []corev1.PodCondition{is(v1alpha1.ConditionFields, no, 12)},
			want:  []corev1.PodCondition{scheduled},
		},
		"the proxy keeps conditions that the delegate lacks": {
			proxy:    []corev1.PodCondition{is(corev1.DisruptionTarget, yes, 11), is("example.com/x", yes, 11)},
			delegate: []corev1.PodCondition{is("example.com/x", no, 12)},
			want: []corev1.PodCondition{
				is("example.com/x", no, 12), scheduled, is(corev1.DisruptionTarget, yes, 11),
			},
		},
		"a condition that the delegate's kubelet no longer reports is gone": {
			proxy: []corev1.PodCondition{is(corev1.PodReady, yes, 11), is(corev1.PodResizeInProgress, yes, 11)},
			want:  []corev1.PodCondition{scheduled},
		},
		"observed generations are never the delegate's": {
			proxy: []corev1.PodCondition{observed(is(corev1.PodReady, no, 11), 1)},
			delegate: []corev1.PodCondition{
				observed(is(corev1.PodReady, yes, 12), 7), observed(is(corev1.PodInitialized, yes, 12), 7),
			},
			want: []corev1.PodCondition{
				observed(is(corev1.PodReady, yes, 12), 1), is(corev1.PodInitialized, yes, 12), scheduled,
			},
		},
		"a proxy whose gate nobody set is not ready": {
			gated:    true,
			delegate: []corev1.PodCondition{is(corev1.PodReady, yes, 12)},
			want: []corev1.PodCondition{
				notReadyBecause(12, `corresponding condition of pod readiness gate "example.com/gate" does not exist.`),
				scheduled,
			},
		},
		"a proxy whose gate is closed is not ready since it closed": {
			gated:    true,
			proxy:    []corev1.PodCondition{is(gateType, no, 20)},
			delegate: []corev1.PodCondition{is(corev1.PodReady, yes, 12)},
			want: []corev1.PodCondition{
				notReadyBecause(20, `the status of pod readiness gate "example.com/gate" is not "True", but False`),
				scheduled, is(gateType, no, 20),
			},
		},
		"a proxy is ready since its gate opened": {
			gated:    true,
			proxy:    []corev1.PodCondition{is(gateType, yes, 20)},
			delegate: []corev1.PodCondition{is(corev1.PodReady, yes, 12)},
			want:     []corev1.PodCondition{is(corev1.PodReady, yes, 20), scheduled, is(gateType, yes, 20)},
		},
		"a proxy is ready since its delegate is": {
			gated:    true,
			proxy:    []corev1.PodCondition{is(gateType, yes, 10)},
			delegate: []corev1.PodCondition{is(corev1.PodReady, yes, 12)},
			want:     []corev1.PodCondition{is(corev1.PodReady, yes, 12), scheduled, is(gateType, yes, 10)},
		},
		"an open gate does not make a delegate ready that is not": {
			gated:    true,
			proxy:    []corev1.PodCondition{is(gateType, yes, 20)},
			delegate: []corev1.PodCondition{is(corev1.PodReady, no, 12)},
			want:     []corev1.PodCondition{is(corev1.PodReady, no, 12), scheduled, is(gateType, yes, 20)},
		},
		"a gate is the source's, even where the delegate has such a condition": {
			gated:    true,
			proxy:    []corev1.PodCondition{is(gateType, no, 20)},
			delegate: []corev1.PodCondition{is(gateType, yes, 12), is(corev1.PodReady, no, 12)},
			want:     []corev1.PodCondition{is(corev1.PodReady, no, 12), scheduled, is(gateType, no, 20)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := bound(tc.proxy...)
			if tc.gated {
				proxy.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gateType}}
			}
			delegate := running(tc.delegate...)
			status := translate.ProxyStatus(proxy, delegate)
			if diff := cmp.Diff(tc.want, status.Conditions); diff != "" {
				t.Errorf("unexpected conditions (-want +got):\n%s", diff)
			}
			proxy.Status = status
			if diff := cmp.Diff(status, translate.ProxyStatus(proxy, delegate)); diff != "" {
				t.Errorf("ProxyStatus is not idempotent (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestProxyStatusStaysTheSame(t *testing.T) {
	finished := func(phase corev1.PodPhase) *corev1.Pod {
		proxy := bound()
		proxy.Status.Phase = phase
		return proxy
	}
	for name, tc := range map[string]struct {
		proxy    *corev1.Pod
		delegate corev1.PodStatus
	}{
		"the proxy succeeded": {
			finished(corev1.PodSucceeded), running(is(corev1.PodReady, corev1.ConditionTrue, 12)),
		},
		"the proxy failed": {
			finished(corev1.PodFailed), running(is(corev1.PodReady, corev1.ConditionTrue, 12)),
		},
		"the delegate has no status": {bound(), corev1.PodStatus{}},
		"the delegate has only our own condition": {
			bound(),
			corev1.PodStatus{
				Conditions: []corev1.PodCondition{is(v1alpha1.ConditionDelegate, corev1.ConditionFalse, 1)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := translate.ProxyStatus(tc.proxy, tc.delegate)
			if diff := cmp.Diff(tc.proxy.Status, got); diff != "" {
				t.Errorf("unexpected status (-want +got):\n%s", diff)
			}
			got.Conditions[0].LastTransitionTime = metav1.NewTime(time.Time{})
			if tc.proxy.Status.Conditions[0].LastTransitionTime.IsZero() {
				t.Error("the result shares memory with the proxy")
			}
		})
	}
}

func TestFinished(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{
		"": false, corev1.PodPending: false, corev1.PodRunning: false, corev1.PodUnknown: false,
		corev1.PodSucceeded: true, corev1.PodFailed: true,
	} {
		if got := translate.Finished(phase); got != want {
			t.Errorf("phase %q: got %t, want %t", phase, got, want)
		}
	}
}

func TestEachGateThatIsNotSatisfiedIsNamed(t *testing.T) {
	open := is("example.com/open", corev1.ConditionTrue, 30)
	proxy := bound(open, is("example.com/closed", corev1.ConditionFalse, 20))
	for _, gate := range []corev1.PodConditionType{"example.com/open", "example.com/closed", "example.com/missing"} {
		proxy.Spec.ReadinessGates = append(proxy.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
	}
	status := translate.ProxyStatus(proxy, running(is(corev1.PodReady, corev1.ConditionTrue, 12)))
	want := is(corev1.PodReady, corev1.ConditionFalse, 20)
	want.Reason = "ReadinessGatesNotReady"
	want.Message = `the status of pod readiness gate "example.com/closed" is not "True", but False, ` +
		`corresponding condition of pod readiness gate "example.com/missing" does not exist.`
	if diff := cmp.Diff(&want, translate.PodCondition(status.Conditions, corev1.PodReady)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
