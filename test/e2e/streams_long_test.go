//go:build e2e && long

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

const (
	// atOnce is the number of commands, and of logs, that are open at the same time. Both together are as many streams
	// as a target may have.
	atOnce = 50
	// logLines is the number of lines that each follower of a log reads.
	logLines = 200
	// largeSize is the size in bytes of large files.
	largeSize = 100 << 20
)

func TestManyStreamsAtOnceLeaveNothingBehind(t *testing.T) {
	w := setUp(t)
	web, delegate := w.streamed(t, "web")
	w.kubectl(t, "exec", web.Name, "--", "/whoami", "print", "connected") // Some connections stay.
	left := w.watchLeftovers(t, delegate)

	var followers []*follower
	for range atOnce {
		followers = append(followers, w.follow(t, web.Name))
	}
	commands := w.converse(t, web.Name)
	eventually(t, "the manager to have the streams", func(ctx context.Context) error {
		return left.grown(ctx, t, 2*atOnce)
	})
	if got := len(processesOfProgram(t, delegate.UID, "whoami")); got < 1+atOnce {
		t.Errorf("the delegate has %d processes", got)
	}
	for line := range logLines { // The container logs each request.
		ask(t.Context(), t, fmt.Sprintf("http://%s:8080/line-%d", delegate.Status.PodIP, line))
	}
	var reading errgroup.Group
	for _, f := range followers {
		reading.Go(f.expectLines)
	}
	for i, c := range commands { // They do not mix.
		reading.Go(func() error { return c.say(fmt.Sprintf("and command %d goes on", i)) })
	}
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}
	endAll(t, followers, commands)
	left.gone(t)
}

// endAll ends the input of half of the commands. From all other streams the callers just leave.
func endAll(t *testing.T, followers []*follower, commands []*conversation) {
	t.Helper()
	for i, c := range commands {
		if i%2 == 1 {
			c.leave()
			continue
		}
		if err := c.end(); err != nil {
			t.Errorf("command %d: %v", i, err)
		}
	}
	for _, f := range followers {
		f.leave()
	}
}

// streamed creates an elected web server that runs in c2, with the program tar, and returns it with its delegate.
func (w *world) streamed(t *testing.T, name string) (proxy, delegate *corev1.Pod) {
	t.Helper()
	template := quick(inTarget("c2", podTemplate(name)))
	mounts := []corev1.VolumeMount{{Name: "files", MountPath: "/files"}}
	template.Spec.Volumes = []corev1.Volume{{
		Name: "files", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	template.Spec.InitContainers = []corev1.Container{{
		Name: "install", Image: image, ImagePullPolicy: corev1.PullNever, Args: []string{"install", "/files/tar"},
		VolumeMounts: mounts,
	}}
	container := &template.Spec.Containers[0]
	container.VolumeMounts, container.Env = mounts, []corev1.EnvVar{{Name: "PATH", Value: "/files"}}
	create(t, w.c1, w.pod(name, template))
	proxy = w.reaches(t, name, corev1.PodRunning)
	_, delegate = w.delegateOf(t, proxy)
	return proxy, delegate
}

// follower follows a log.
type follower struct {
	log   io.ReadCloser
	leave context.CancelFunc
}

func (w *world) follow(t *testing.T, pod string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	logs := kubernetes.NewForConfigOrDie(w.c1.config).CoreV1().Pods(w.namespace).
		GetLogs(pod, &corev1.PodLogOptions{Follow: true, Container: "whoami"})
	log, err := logs.Stream(ctx)
	if err != nil {
		t.Fatalf("following the log: %v", err)
	}
	return &follower{log: log, leave: cancel}
}

// expectLines reads until each line has come, in order and once.
func (f *follower) expectLines() error {
	lines := bufio.NewScanner(f.log)
	for next := 0; next < logLines; {
		if !lines.Scan() {
			return fmt.Errorf("the log ends before line %d: %w", next, lines.Err())
		}
		if !strings.HasPrefix(lines.Text(), "GET /line-") {
			continue
		}
		if !strings.HasPrefix(lines.Text(), fmt.Sprintf("GET /line-%d from ", next)) {
			return fmt.Errorf("line %d of the log is %q", next, lines.Text())
		}
		next++
	}
	return nil
}

// conversation is with a command that repeats its input.
type conversation struct {
	input  io.WriteCloser
	output io.Reader
	leave  context.CancelFunc
	done   chan error
}

// converse starts the commands, all at the same time, and waits until each has repeated something.
func (w *world) converse(t *testing.T, pod string) []*conversation {
	t.Helper()
	var starting errgroup.Group
	commands := make([]*conversation, atOnce)
	for i := range commands {
		commands[i] = w.startCommand(t, pod)
		starting.Go(func() error {
			return commands[i].say(strings.Repeat(fmt.Sprintf("this is command %d. ", i), 1000))
		})
	}
	if err := starting.Wait(); err != nil {
		t.Fatal(err)
	}
	return commands
}

// startCommand uses WebSocket, as kubectl does.
func (w *world) startCommand(t *testing.T, pod string) *conversation {
	t.Helper()
	request := kubernetes.NewForConfigOrDie(w.c1.config).CoreV1().RESTClient().Get().
		Namespace(w.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: "whoami", Command: []string{"/whoami", "cat"}, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(w.c1.config, http.MethodGet, request.URL().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stdin, input := io.Pipe()
	output, stdout := io.Pipe()
	c := &conversation{input: input, output: output, leave: cancel, done: make(chan error, 1)}
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{
			Stdin: stdin, Stdout: stdout, Stderr: io.Discard,
		})
		_ = stdout.CloseWithError(fmt.Errorf("the command has ended: %w", err))
		_ = stdin.CloseWithError(fmt.Errorf("the command has ended: %w", err))
		c.done <- err
	}()
	return c
}

// say expects the command to repeat the text.
func (c *conversation) say(text string) error {
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c.input, text)
		sent <- err
	}()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c.output, got); err != nil {
		return fmt.Errorf("reading what a command repeats: %w", err)
	}
	if string(got) != text {
		return fmt.Errorf("a command repeats %.50q as %.50q", text, got)
	}
	return <-sent
}

// end ends the input, and waits for the command.
func (c *conversation) end() error {
	if err := c.input.Close(); err != nil {
		return err
	}
	return <-c.done
}

func TestLargeFilesArriveAsTheyAreAndLeaveNothingBehind(t *testing.T) {
	w := setUp(t)
	web, delegate := w.streamed(t, "web")
	w.kubectl(t, "exec", web.Name, "--", "/whoami", "print", "connected") // Some connections stay.
	left := w.watchLeftovers(t, delegate)
	folder := t.TempDir()
	file, sum := largeFile(t, filepath.Join(folder, "there"))

	t.Run("copied there and back", func(t *testing.T) {
		w.kubectl(t, "cp", file, web.Name+":/files/large")
		back := filepath.Join(folder, "back")
		w.kubectl(t, "cp", web.Name+":/files/large", back)
		content, err := os.Open(back)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = content.Close() }()
		expectSum(t, sum, content)
	})
	t.Run("as input of a command", func(t *testing.T) {
		got := w.pipe(t, file, "exec", "-i", web.Name, "--", "/whoami", "sum")
		if want := fmt.Sprintf("%x\n", sum); string(got) != want {
			t.Errorf("the command got data with the sum %q, want %q", got, want)
		}
	})
	t.Run("as output of a command", func(t *testing.T) {
		in, end := io.Pipe()
		w.expectBack(t, patternSum(), in, func() { _ = end.Close() },
			"exec", "-i", web.Name, "--", "/whoami", "bytes-held", fmt.Sprint(largeSize))
	})
	t.Run("by a forwarded port", func(t *testing.T) { w.forwardLarge(t, web.Name, file, sum) })
	t.Run("to a container and back", func(t *testing.T) { w.attachLarge(t, file, sum) })
	left.gone(t)
}

// largeFile makes a file of random bytes.
func largeFile(t *testing.T, path string) (string, []byte) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(file, sum), rand.Reader, largeSize); err != nil {
		t.Fatal(err)
	}
	return path, sum.Sum(nil)
}

// patternSum returns the checksum of the pattern that the test image sends.
func patternSum() []byte {
	pattern := make([]byte, largeSize)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	sum := sha256.Sum256(pattern)
	return sum[:]
}

func expectSum(t *testing.T, want []byte, from io.Reader) {
	t.Helper()
	sum := sha256.New()
	n, err := io.Copy(sum, from)
	if err != nil || !bytes.Equal(sum.Sum(nil), want) {
		t.Errorf("%d bytes with the sum %x arrived, want %x: %v", n, sum.Sum(nil), want, err)
	}
}

// pipe runs kubectl with a file as its input, and returns its output.
func (w *world) pipe(t *testing.T, file string, args ...string) []byte {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	var out bytes.Buffer
	if err := w.stream(t.Context(), in, &out, args...); err != nil {
		t.Error(err)
	}
	return out.Bytes()
}

// stream runs kubectl with this input and output.
func (w *world) stream(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	var errs bytes.Buffer
	cmd := w.kubectlCommand(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, errs.String())
	}
	return nil
}

func (w *world) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, localFile("bin/kubectl"), append([]string{
		"--kubeconfig", localFile("kubeconfig"), "--context", "c1", "--namespace", w.namespace,
	}, args...)...)
}

// forwardLarge sends the file by a forwarded port, and receives as much.
func (w *world) forwardLarge(t *testing.T, pod, file string, sum []byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	forward := w.kubectlCommand(ctx, "port-forward", "pod/"+pod, ":8080")
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = forward.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n') // Forwarding from 127.0.0.1:PORT -> 8080
	if err != nil {
		t.Fatalf("kubectl port-forward: %q, %v", line, err)
	}
	server := "http://" + strings.Fields(line)[2]
	content, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	got, err := io.ReadAll(request(ctx, t, http.MethodPost, server+"/sum", content))
	if want := fmt.Sprintf("%x\n", sum); err != nil || string(got) != want {
		t.Errorf("the server got data with the sum %q, want %q: %v", got, want, err)
	}
	expectSum(t, patternSum(), request(ctx, t, http.MethodGet, fmt.Sprintf("%s/bytes?n=%d", server, largeSize), nil))
}

// request returns the answer's body, over a connection of its own.
func request(ctx context.Context, t *testing.T, method, url string, body io.Reader) io.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s: %s", method, url, answer.Status)
	}
	return answer.Body
}

// summed counts what is written, and has its checksum.
type summed struct {
	hash.Hash

	size atomic.Int64
}

func (s *summed) Write(p []byte) (int, error) {
	n, err := s.Hash.Write(p)
	s.size.Add(int64(n))
	return n, err
}

// expectBack runs kubectl until as much as a large file has come back with this checksum. Only then end lets the
// program in the container end: Kubernetes drops what is on its way when a program ends, if the client sends a sign of
// life just then. It does so with any pod.
func (w *world) expectBack(t *testing.T, sum []byte, in io.Reader, end func(), args ...string) {
	t.Helper()
	back := &summed{Hash: sha256.New()}
	var running errgroup.Group
	ended, stop := context.WithCancelCause(t.Context())
	running.Go(func() error {
		err := w.stream(t.Context(), in, back, args...)
		stop(err)
		return err
	})
	eventually(t, "all data to come back", func(context.Context) error {
		if n := back.size.Load(); n != largeSize {
			return fmt.Errorf("%d bytes have arrived, and not %d; the end of kubectl: %w",
				n, largeSize, cmp.Or(context.Cause(ended), errNotYet))
		}
		return nil
	})
	end()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	if got := back.Sum(nil); !bytes.Equal(got, sum) {
		t.Errorf("data with the sum %x arrived, want %x", got, sum)
	}
}

var errNotYet = errors.New("not yet")

// attachLarge sends the file to a container that repeats it.
func (w *world) attachLarge(t *testing.T, file string, sum []byte) {
	t.Helper()
	template := quick(inTarget("c2", podTemplate("reader", "repeat")))
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	template.Spec.Containers[0].Stdin, template.Spec.Containers[0].StdinOnce = true, true
	create(t, w.c1, w.pod("reader", template))
	w.reaches(t, "reader", corev1.PodRunning)
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	w.expectBack(t, sum, in, func() { w.kubectl(t, "exec", "reader", "--", "/whoami", "kill", "1") },
		"attach", "-i", "--quiet", "reader")
	w.reaches(t, "reader", corev1.PodSucceeded)
}
