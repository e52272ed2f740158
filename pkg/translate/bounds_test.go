package translate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// largestHonest returns the status of a pod with 100 containers, each of which has ended once and mounts ten volumes.
// Kubelets keep 12 KiB of the messages of all containers together.
func largestHonest() *corev1.PodStatus {
	status := &corev1.PodStatus{Phase: corev1.PodRunning, Message: "all is well", PodIP: "10.0.0.1"}
	for i := range 40 {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type:   corev1.PodConditionType(fmt.Sprintf("target-health.elbv2.k8s.aws/k8s-default-web-%d", i)),
			Status: corev1.ConditionTrue, Message: strings.Repeat("m", 100), LastTransitionTime: metav1.Now(),
		})
	}
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Gi"),
	}
	image := "registry.example.com/team/of/people/with/long/names/application-" + strings.Repeat("x", 40)
	id := "containerd://" + strings.Repeat("a", 64)
	for i := range 100 {
		c := corev1.ContainerStatus{
			Name: fmt.Sprintf("container-%d", i), Ready: true, RestartCount: 3, Image: image + ":v1.2.3",
			ImageID: image + "@sha256:" + strings.Repeat("b", 64), ContainerID: id, Started: ptr.To(true),
			AllocatedResources: amounts, Resources: &corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
			User: &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: 1000, GID: 1000}},
		}
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
		c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", Message: strings.Repeat("l", 12<<10/100), ContainerID: id,
			StartedAt: metav1.Now(), FinishedAt: metav1.Now(),
		}
		for j := range 10 {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMountStatus{
				Name:      fmt.Sprintf("volume-%d-%s", j, strings.Repeat("v", 20)),
				MountPath: fmt.Sprintf("/var/run/secrets/kubernetes.io/serviceaccount/%d", j), ReadOnly: true,
				RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyDisabled),
			})
		}
		status.ContainerStatuses = append(status.ContainerStatuses, c)
	}
	return status
}

func TestAnHonestStatusPasses(t *testing.T) {
	whole := strings.Repeat("ü", maxMessage/2) // the longest message that kubelets report
	ended := &corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: whole}},
	}}}
	annotated := &corev1.PodStatus{Conditions: []corev1.PodCondition{AnnotationsCondition(strings.Repeat("a", 30_000))}}
	for name, status := range map[string]*corev1.PodStatus{
		"of a pod with 100 containers": largestHonest(), "with a long message": ended, "with annotations": annotated,
	} {
		t.Run(name, func(t *testing.T) {
			was := status.DeepCopy()
			BoundStatus(status)
			if diff := cmp.Diff(was, status); diff != "" {
				t.Errorf("it changed (-was +is):\n%s", diff)
			}
			t.Logf("it has %d bytes", status.Size())
			if status.Size() > MaxStatus*3/4 {
				t.Errorf("its %d bytes are close to the bound", status.Size())
			}
		})
	}
}

func TestWhatATargetReportsIsSmall(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	lying := func(conditions int, text string) corev1.PodStatus {
		status := corev1.PodStatus{Phase: corev1.PodFailed, Reason: text, Message: text, NominatedNodeName: text}
		status.Conditions = []corev1.PodCondition{{Type: corev1.PodConditionType(text)}}
		for i := range conditions {
			status.Conditions = append(status.Conditions, corev1.PodCondition{
				Type: corev1.PodConditionType(fmt.Sprint(i)), Reason: text, Message: text,
			})
		}
		for _, containers := range []*[]corev1.ContainerStatus{
			&status.InitContainerStatuses, &status.ContainerStatuses, &status.EphemeralContainerStatuses,
		} {
			*containers = []corev1.ContainerStatus{{
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: text, Message: text}},
				LastTerminationState: corev1.ContainerState{
					Terminated: &corev1.ContainerStateTerminated{Reason: text, Message: text},
				},
			}}
		}
		return status
	}
	few := lying(20, long)
	BoundStatus(&few)
	if got := few.Size(); got > MaxStatus || len(few.Conditions) != 20 || len(few.ContainerStatuses) != 1 {
		t.Errorf("%d bytes, %d conditions, %d containers", got, len(few.Conditions), len(few.ContainerStatuses))
	}
	many := lying(10_000, "x")
	BoundStatus(&many)
	if got := len(many.Conditions); got != maxConditions {
		t.Errorf("%d conditions", got)
	}
}

func TestAStatusThatIsTooLargeKeepsWhatDecidesAboutThePod(t *testing.T) {
	began := metav1.NewTime(time.Unix(1000, 0))
	kept := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"},
		{Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonDelegateGone},
	}
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &began,
		Conditions: append([]corev1.PodCondition{{Type: "example.com/other"}}, kept...),
	}
	for range 10_000 {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: "app", Image: strings.Repeat("i", 100),
		})
	}
	BoundStatus(&status)
	want := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &began, Conditions: kept, Reason: reasonTooLarge, Message: messageTooLarge,
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("the status (-want +got):\n%s", diff)
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "1234567": "1234567", "12345678": "1234…", "123üüü": "123…"} {
		if got := Shorten(text, 7); got != want || len(got) > 7 {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
