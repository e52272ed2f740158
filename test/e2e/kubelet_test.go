//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestLogsAndExecReachTheDelegate(t *testing.T) {
	w := setUp(t)
	for _, target := range []string{"c1", "c2"} {
		t.Run(target, func(t *testing.T) {
			name := "web-" + target
			template := podTemplate(name)
			template.Annotations["multicluster.admiralty.io/proxy-pod-scheduling-constraints"] =
				"nodeSelector: {multicluster.admiralty.io/cluster-target-name: " + target + "}"
			template.Spec.Containers = append(template.Spec.Containers, corev1.Container{
				Name:            "second",
				Image:           image,
				ImagePullPolicy: corev1.PullNever,
				Args:            []string{"serve", "--address", ":8081"},
			})
			create(t, w.c1, w.pod(name, template))
			w.reaches(t, name, corev1.PodRunning)

			if out := w.kubectl(t, "logs", name, "-c", "whoami"); !strings.Contains(out, "serves on [::]:8080") {
				t.Errorf("kubectl logs -c whoami:\n%s", out)
			}
			if out := w.kubectl(t, "logs", name, "-c", "second"); !strings.Contains(out, "serves on [::]:8081") {
				t.Errorf("kubectl logs -c second:\n%s", out)
			}
			if out := w.kubectl(
				t,
				"exec",
				name,
				"-c",
				"whoami",
				"--",
				"/whoami",
				"echo",
				"inside",
			); strings.TrimSpace(
				out,
			) != "inside" {
				t.Errorf("kubectl exec: got %q", out)
			}
			if out, err := runKubectl(
				t.Context(),
				"--context",
				"c1",
				"-n",
				w.namespace,
				"exec",
				name,
				"-c",
				"whoami",
				"--",
				"/whoami",
				"exit",
				"7",
			); err == nil ||
				!strings.Contains(out, "exit code 7") {
				t.Errorf("kubectl exec of a program that exits with 7: %v\n%s", err, out)
			}
		})
	}
}

func TestLogsFollowAndShowThePreviousContainer(t *testing.T) {
	w := setUp(t)
	template := podTemplate("brief", "print", "one life")
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	create(t, w.c1, w.pod("brief", template))
	w.reaches(t, "brief", corev1.PodSucceeded)
	if out := w.kubectl(t, "logs", "-f", "brief"); strings.TrimSpace(out) != "one life" {
		t.Errorf("kubectl logs -f of a finished pod: got %q", out)
	}

	create(t, w.c1, w.pod("again", podTemplate("again", "print", "a former life")))
	eventuallyOutput(t, w, "a former life", "logs", "--previous", "again")
}

// eventuallyOutput waits until kubectl succeeds and prints the text.
func eventuallyOutput(t *testing.T, w *world, want string, args ...string) {
	t.Helper()
	eventually(t, "kubectl "+strings.Join(args, " ")+" to print "+want, func(ctx context.Context) error {
		out, err := runKubectl(ctx, append([]string{"--context", "c1", "-n", w.namespace}, args...)...)
		if err != nil {
			return fmt.Errorf("it printed %q: %w", out, err)
		}
		if !strings.Contains(out, want) {
			return fmt.Errorf("it printed %q", out)
		}
		return nil
	})
}
