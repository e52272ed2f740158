//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestForwardedPortsLeadToTheDelegate(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.pod("web", podTemplate("web")))
	w.reaches(t, "web", corev1.PodRunning)
	for name, socket := range map[string]string{"WebSocket": "true", "SPDY": "false"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			forward := exec.CommandContext(ctx, localFile("bin/kubectl"), "--kubeconfig", localFile("kubeconfig"),
				"--context", "c1", "-n", w.namespace, "port-forward", "pod/web", ":8080")
			forward.Env = append(forward.Environ(), "KUBECTL_PORT_FORWARD_WEBSOCKETS="+socket)
			out, err := forward.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := forward.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:PORT -> 8080
			if err != nil {
				t.Fatalf("kubectl port-forward: %q, %v", line, err)
			}
			address := strings.Fields(line)[2]
			for range 3 {
				ask(ctx, t, "http://"+address+"/")
			}
			cancel()
			_ = forward.Wait()
		})
	}
}

func TestAttachReachesTheDelegate(t *testing.T) {
	w := setUp(t)
	template := podTemplate("reader", "cat")
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Spec.Containers[0].Stdin, template.Spec.Containers[0].StdinOnce = true, true
	create(t, w.c1, w.pod("reader", template))
	w.reaches(t, "reader", corev1.PodRunning)
	attach := exec.CommandContext(t.Context(), localFile("bin/kubectl"), "--kubeconfig", localFile("kubeconfig"),
		"--context", "c1", "-n", w.namespace, "attach", "-i", "--quiet", "reader")
	attach.Stdin = strings.NewReader("a line for the program\n")
	if out, err := attach.Output(); err != nil || string(out) != "a line for the program\n" {
		t.Errorf("kubectl attach: %q, %v", out, err)
	}
	w.reaches(t, "reader", corev1.PodSucceeded) // Its input has ended.
	eventuallyOutput(t, w, "a line for the program", "logs", "reader")
}

// ask fails the test unless a container answers.
func ask(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK || len(text) == 0 {
		t.Errorf("answer %d %q, %v", answer.StatusCode, text, err)
	}
}
