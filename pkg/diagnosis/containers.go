package diagnosis

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Container is a container that does not run as it should.
type Container struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Hint is advice for the user, or empty.
	Hint string `json:"hint,omitempty"`
}

// Containers returns the pod's containers that wait or failed.
func Containers(pod *corev1.Pod) []Container {
	var failing []Container
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		c := Container{Name: status.Name}
		switch waiting, terminated := status.State.Waiting, status.State.Terminated; {
		case waiting != nil && waiting.Reason != "":
			c.Reason, c.Message = waiting.Reason, waiting.Message
		case terminated != nil && terminated.ExitCode != 0:
			c.Reason, c.Message = terminated.Reason, terminated.Message
		default:
			continue
		}
		messages := c.Message
		if last := status.LastTerminationState.Terminated; last != nil {
			messages += "\n" + last.Message
		}
		if wrongArchitecture(messages) {
			c.Hint = hintArchitecture
		}
		failing = append(failing, c)
	}
	return failing
}

const hintArchitecture = "The image seems to have no variant for the architecture of that node. " +
	`Set "` + corev1.LabelArchStable + `" in spec.nodeSelector to an architecture that the image has ` +
	"(amd64 or arm64, say). " +
	"The scheduler then also chooses the target by it. " +
	"This pod is bound and stays where it is: delete it, and its replacement goes where it can run."

// wrongArchitecture recognises the messages of container runtimes and kernels about images for other architectures.
func wrongArchitecture(message string) bool {
	return slices.ContainsFunc([]string{
		"exec format error",          // the kernel
		"no matching manifest for",   // Docker
		"no match for platform",      // containerd
		"no image found in manifest", // CRI-O, of manifest lists
		"no image found in image index for architecture",
	}, func(part string) bool { return strings.Contains(message, part) })
}
