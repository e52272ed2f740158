package idle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var (
	then = metav1.NewTime(time.Unix(1000, 0))
	now  = metav1.NewTime(time.Unix(2000, 0))
)

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "admiralty-c2"}}
	p.Generation = 3
	p.Status.Phase = corev1.PodPending
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: then,
	}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		controller := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Controller: &controller}}
	}
}

func unacknowledged(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.AnnotationAcknowledge: "false"}
}

func TestDecide(t *testing.T) {
	daemon := ownedBy("apps/v1", "DaemonSet")
	for name, tc := range map[string]struct {
		pod         *corev1.Pod
		acknowledge bool
		phase       corev1.PodPhase // empty: the pod stays the same
		reason      string
		says        string
	}{
		"the pod of a DaemonSet": {
			pod(daemon), true, corev1.PodRunning, ReasonNothingRuns, "NotIn",
		},
		"the pod of a DaemonSet of others": {
			pod(ownedBy("apps.kruise.io/v1beta1", "DaemonSet")), true, corev1.PodRunning, ReasonNothingRuns, "NotIn",
		},
		"acknowledging is off": {
			pod(daemon), false, corev1.PodPending, ReasonNotElected, "daemonSets.acknowledge",
		},
		"acknowledging is off for this pod": {
			pod(daemon, unacknowledged), true, corev1.PodPending, ReasonNotElected, "daemonSets.acknowledge",
		},
		"a bare pod that was bound by hand": {
			pod(), true, corev1.PodPending, ReasonNotElected, "Delete this pod",
		},
		"a pod of a ReplicaSet with spec.nodeName": {
			pod(ownedBy("apps/v1", "ReplicaSet")), true, corev1.PodPending, ReasonNotElected, v1alpha1.AnnotationElect,
		},
		"a mirror pod that somebody made": {
			pod(ownedBy("v1", "Node")), true, corev1.PodPending, ReasonNotElected, "Delete this pod",
		},
		"an owner that is no controller of the pod": {
			pod(func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet"}} }),
			true, corev1.PodPending, ReasonNotElected, "Delete this pod",
		},
		"a pod that is being deleted": {
			pod: pod(daemon, func(p *corev1.Pod) { p.DeletionTimestamp = &now }), acknowledge: true,
		},
		"a pod that has finished": {
			pod: pod(daemon, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), acknowledge: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := decide(tc.pod, tc.acknowledge, now)
			if tc.phase == "" {
				if status != nil {
					t.Errorf("the pod gets the status %v, want none", status)
				}
				return
			}
			if status == nil || status.Phase != tc.phase || status.Reason != tc.reason ||
				!strings.Contains(status.Message, tc.says) || !strings.Contains(status.Message, "admiralty-c2") {
				t.Fatalf("unexpected status %v", status)
			}
			tc.pod.Status = *status
			if again := decide(tc.pod, tc.acknowledge, metav1.NewTime(now.Add(time.Hour))); again != nil {
				t.Errorf("the status changes again (-was +is):\n%s", cmp.Diff(status, again))
			}
		})
	}
}

func TestAnAcknowledgedPodIsReadyAndHasNoAddress(t *testing.T) {
	status := decide(pod(ownedBy("apps/v1", "DaemonSet")), true, now)
	want := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: then},
	}
	for _, is := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		want = append(want, corev1.PodCondition{
			Type: is, Status: corev1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: 3,
			Reason: ReasonNothingRuns, Message: status.Message,
		})
	}
	if diff := cmp.Diff(want, status.Conditions); diff != "" {
		t.Errorf("unexpected conditions (-want +got):\n%s", diff)
	}
	if status.StartTime == nil || !status.StartTime.Equal(&now) || status.ObservedGeneration != 3 ||
		status.PodIP != "" || len(status.ContainerStatuses) > 0 {
		t.Errorf("unexpected status %v", status)
	}
}

func TestAPodThatANodeControllerMarkedIsReadyAgain(t *testing.T) {
	p := pod(ownedBy("apps/v1", "DaemonSet"))
	p.Status = *decide(p, true, then)
	ready := &p.Status.Conditions[len(p.Status.Conditions)-1]
	ready.Status, ready.LastTransitionTime = corev1.ConditionFalse, then
	status := decide(p, true, now)
	if status == nil {
		t.Fatal("the pod stays as it is")
	}
	if c := status.Conditions[len(status.Conditions)-1]; c.Status != corev1.ConditionTrue ||
		!c.LastTransitionTime.Equal(&now) {
		t.Errorf("unexpected condition %v", c)
	}
}

func TestEachConditionIsThereOnce(t *testing.T) {
	p := pod(ownedBy("apps/v1", "DaemonSet"))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionFalse}}
	if got := len(decide(p, true, now).Conditions); got != 3 {
		t.Errorf("a pod that was not initialized has %d conditions, want 3", got)
	}
}

func TestWhichPodsMayBeIdle(t *testing.T) {
	ours := func(p *corev1.Pod) { p.Spec.SchedulerName = v1alpha1.SchedulerName }
	admitted := func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"}
	}
	started := func(p *corev1.Pod) { p.Status.StartTime = &then }
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a pod of others":                       {pod(), true},
		"a pod of others on another node":       {pod(func(p *corev1.Pod) { p.Spec.NodeName = "n1" }), false},
		"a proxy":                               {pod(ours, admitted), false},
		"a proxy that lost its annotations":     {pod(ours, started), false},
		"a copy of a proxy that keeps the node": {pod(ours), true},
	} {
		if got := mayBeIdle(test.pod); got != test.want {
			t.Errorf("%s may be idle: %t", name, got)
		}
	}
}
