package explain

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// container is one that does not run as it should.
type container struct {
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// containers returns those that wait or failed, with what may be done about it.
func containers(pod *corev1.Pod) []container {
	var found []container
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		c := container{Name: status.Name}
		switch waiting, terminated := status.State.Waiting, status.State.Terminated; {
		case waiting != nil && waiting.Reason != "":
			c.Reason, c.Message = waiting.Reason, waiting.Message
		case terminated != nil && terminated.ExitCode != 0:
			c.Reason, c.Message = terminated.Reason, terminated.Message
		default:
			continue
		}
		all := c.Message
		if last := status.LastTerminationState.Terminated; last != nil {
			all += "\n" + last.Message
		}
		if wrongArchitecture(all) {
			c.Hint = hintArchitecture
		}
		found = append(found, c)
	}
	return found
}

const hintArchitecture = "This looks like an image without a variant for the architecture of that node. Select nodes of one that it has, " +
	`with "` + corev1.LabelArchStable + `" in spec.nodeSelector (amd64 or arm64, say); it chooses the target, too. ` +
	"The pod is bound and stays where it is: delete it, and the next one goes where it can run."

// wrongArchitecture says whether a message is what container runtimes and kernels say of images for other architectures.
func wrongArchitecture(message string) bool {
	return slices.ContainsFunc([]string{
		"exec format error",          // the kernel
		"no matching manifest for",   // Docker
		"no match for platform",      // containerd
		"no image found in manifest", // CRI-O, of manifest lists
		"no image found in image index for architecture",
	}, func(part string) bool { return strings.Contains(message, part) })
}
