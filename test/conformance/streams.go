package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
)

// streamActions are those that reach containers.
func streamActions() []*testCase {
	const logs, execs = "kubectl logs", "kubectl exec, attach, cp, port-forward"
	return []*testCase{
		inShort(action(logs, "logs", "logs of a container by its name", logsOf("-c", "other"))),
		action(logs, "logs-default-container", "logs of the first container", logsOf()),
		action(logs, "logs-all-containers", "logs of all containers, with prefixes", logsOfAll),
		action(logs, "logs-tail", "the last lines", logsOf("--tail=1")),
		action(logs, "logs-since", "the last hour", logsOf("--since=1h")),
		action(logs, "logs-limit-bytes", "the first bytes", logsOf("--limit-bytes=5")),
		action(logs, "logs-timestamps", "times of lines", logsOf("--timestamps")),
		action(logs, "logs-missing-container", "a container that the pod lacks", logsOf("-c", "missing")),
		action(logs, "logs-by-label", "logs of the pods of a label", logsBy),
		inShort(action(logs, "logs-previous", "logs of the container before its restart", logsPrevious)),
		action(logs, "logs-previous-none", "logs of a container before its first restart", logsOf("--previous")),
		action(logs, "logs-follow", "logs until the container ends", logsFollow),
		inShort(action(execs, "exec", "the output of a command", execOf(nil, "print", "inside"))),
		action(execs, "exec-exit-code", "the exit code of a command", execOf(nil, "exit", "7")),
		action(execs, "exec-missing-command", "a command that the image lacks", execMissing),
		action(execs, "exec-container", "a command in another container", execOther),
		action(execs, "exec-stdin", "the standard input of a command", execOf(strings.NewReader("typed\n"), "cat")),
		action(execs, "exec-finished", "a command in a container that has ended", execFinished),
		action(execs, "exec-tty", "a command with -it, where the input is no terminal", execTerminal),
		inShort(action(execs, "exec-terminal", "a command with -it, in a terminal whose size changes", execInTerminal)),
		inShort(action(execs, "attach", "what a running container prints", attach)),
		action(execs, "attach-stdin", "the standard input of a running container", attachInput),
		inShort(action(execs, "port-forward", "a request by a forwarded port", portForward)),
		inShort(action(execs, "cp", "files to a container and from it", copyFiles)),
		action(execs, "cp-folder", "a folder to a container and from it", copyFolder),
		action(execs, "proxy", "a request by the API server's proxy", proxyToPod),
	}
}

// execOf runs a command of the test image.
func execOf(in *strings.Reader, command ...string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.start(ctx, newPod("pod")); err != nil {
			return err
		}
		args := []string{"exec", "pod", "--"}
		var from io.Reader
		if in != nil {
			again := *in // Both sides read it.
			args, from = []string{"exec", "-i", "pod", "--"}, &again
		}
		out, err := s.kubectlWith(ctx, from, append(append(args, program), command...)...)
		s.noteOutput("exec", out, err)
		return nil
	}
}

func execMissing(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "exec", "exec", "pod", "--", "/missing")
	return nil
}

func execOther(ctx context.Context, s *side) error {
	pod := newPod("pod")
	other := newContainer("other", "sleep", "infinity")
	other.Env = []corev1.EnvVar{{Name: "WHO", Value: "other"}}
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "other", "exec", "pod", "-c", "other", "--", program, "env", "WHO")
	s.try(ctx, "missing", "exec", "pod", "-c", "missing", "--", program, "env", "WHO")
	return nil
}

func execFinished(ctx context.Context, s *side) error {
	pod := newPod("pod", "print", "done")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := s.finish(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "exec", "exec", "pod", "--", program, "print", "inside")
	return nil
}

func execTerminal(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	out, err := s.kubectlWith(ctx, strings.NewReader(""), "exec", "-it", "pod", "--", program, "env", "TERM")
	s.noteOutput("exec", out, err)
	return nil
}

func execInTerminal(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	return s.inTerminal(ctx, "exec", "-it", "pod", "--", program, "terminal")
}

// inTerminal runs kubectl in a terminal, with a command that prints the size of its terminal, and ends when a line is
// typed.
func (s *side) inTerminal(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := s.command(ctx, args...)
	keyboard, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 100})
	if err != nil {
		return fmt.Errorf("starting kubectl in a terminal: %w", err)
	}
	defer keyboard.Close()
	lines := bufio.NewScanner(keyboard)
	if !awaitLine(lines, "40 rows, 100 columns") {
		return errors.Join(errors.New("the command does not learn the size of its terminal"), lines.Err())
	}
	if err := pty.Setsize(keyboard, &pty.Winsize{Rows: 30, Cols: 90}); err != nil {
		return fmt.Errorf("changing the size of the terminal: %w", err)
	}
	if !awaitLine(lines, "30 rows, 90 columns") {
		return errors.Join(errors.New("the command does not learn of the new size of its terminal"), lines.Err())
	}
	if _, err := keyboard.WriteString("typed\r"); err != nil {
		return fmt.Errorf("typing: %w", err)
	}
	echoes := awaitLine(lines, "typed")
	s.noteOutput(args[0], fmt.Sprintf("typed text is shown: %t", echoes), cmd.Wait())
	return nil
}

// awaitLine reads until a line has a text, and says whether one came.
func awaitLine(lines *bufio.Scanner, want string) bool {
	for lines.Scan() {
		if strings.Contains(lines.Text(), want) {
			return true
		}
	}
	return false
}

// attach reads until the container has answered a request.
func attach(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := s.command(ctx, "attach", "pod")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	go func() { // The first requests may come before kubectl has attached.
		for ctx.Err() == nil {
			_, _ = s.kubectl(ctx, "exec", "pod", "--", program, "get", "http://127.0.0.1:8080/attached")
		}
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "/attached") {
			s.note("line", lines.Text())
			return nil
		}
	}
	return fmt.Errorf("attach printed nothing")
}

func attachInput(ctx context.Context, s *side) error {
	pod := newPod("pod", "cat")
	pod.Spec.Containers[0].Stdin, pod.Spec.Containers[0].StdinOnce = true, true
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	if out, err := s.kubectlWith(ctx, strings.NewReader("typed\n"), "attach", "-i", "pod"); err != nil {
		s.noteOutput("attach", out, err)
	}
	if err := s.reach(ctx, "pod", "{.status.phase}=Succeeded"); err != nil {
		return err
	}
	s.try(ctx, "logs", "logs", "pod")
	return nil
}

var forwarding = regexp.MustCompile(`127\.0\.0\.1:(\d+) ->`)

func portForward(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := s.command(ctx, "port-forward", "pod/pod", ":8080", "--address=127.0.0.1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	found := forwarding.FindStringSubmatch(line)
	if err != nil || found == nil {
		return fmt.Errorf("port-forward printed %q: %w", line, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+found[1]+"/", nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return fmt.Errorf("asking by the forwarded port: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	s.note("answer", answer.Status+" "+string(body))
	return err
}

// command returns a command of kubectl that goes on until it is killed.
func (s *side) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(".local", "bin", "kubectl"),
		append([]string{"--context", s.c.name, "--namespace", s.namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(".local", "kubeconfig"))
	return cmd
}

// withTar returns a pod with the program tar, which `kubectl cp` calls.
func withTar() *corev1.Pod {
	pod := newPod("pod")
	pod.Spec.InitContainers = []corev1.Container{newContainer("init", "install", "/tools/tar")}
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "tools", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	withData(pod)
	for _, c := range []*corev1.Container{&pod.Spec.InitContainers[0], &pod.Spec.Containers[0]} {
		c.Env = []corev1.EnvVar{{Name: "PATH", Value: "/tools"}}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "tools", MountPath: "/tools"})
	}
	return pod
}

func withDataAndTar(ctx context.Context, s *side) (folder string, remove func(), err error) {
	if err := s.start(ctx, withTar()); err != nil {
		return "", nil, err
	}
	folder, err = os.MkdirTemp("", "conformance-")
	return folder, func() { _ = os.RemoveAll(folder) }, err
}

func copyFiles(ctx context.Context, s *side) error {
	folder, remove, err := withDataAndTar(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	there, back := filepath.Join(folder, "there"), filepath.Join(folder, "back")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	if err := os.WriteFile(there, content, 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{there, "pod:/data/file"}, {"pod:/data/file", back}} {
		if out, err := s.kubectl(ctx, append([]string{"cp"}, args...)...); err != nil {
			return fmt.Errorf("copying: %w: %s", err, out)
		}
	}
	got, err := os.ReadFile(back)
	s.note("equal", bytes.Equal(content, got))
	return err
}

func copyFolder(ctx context.Context, s *side) error {
	folder, remove, err := withDataAndTar(ctx, s)
	if err != nil {
		return err
	}
	defer remove()
	there, back := filepath.Join(folder, "there"), filepath.Join(folder, "back")
	if err := os.Mkdir(there, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(there, name), []byte(name), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{there, "pod:/data/folder"}, {"pod:/data/folder", back}} {
		if out, err := s.kubectl(ctx, append([]string{"cp"}, args...)...); err != nil {
			return fmt.Errorf("copying: %w: %s", err, out)
		}
	}
	for _, name := range []string{"a", "b"} {
		content, err := os.ReadFile(filepath.Join(back, name))
		if err != nil {
			return err
		}
		s.note(name, string(content))
	}
	return nil
}

func proxyToPod(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "answer", "get", "--raw", "/api/v1/namespaces/"+s.namespace+"/pods/pod:8080/proxy/")
	return nil
}
