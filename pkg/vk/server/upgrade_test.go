package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // The types of client-go.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	clientexec "k8s.io/client-go/util/exec"
	serverportforward "k8s.io/cri-streaming/pkg/streaming/portforward"
	serverremotecommand "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	clocktesting "k8s.io/utils/clock/testing"
	utilexec "k8s.io/utils/exec"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// large is a multiple of the buffers on the way.
const large = 100 << 20

//nolint:revive // argument-limit: the interface wants it.
func (echo) AttachContainer(
	_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool,
	_ <-chan serverremotecommand.TerminalSize,
) error {
	_, err := io.Copy(out, in)
	return err
}

// PortForward answers with its port, and with what it gets once that has ended.
func (echo) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	fmt.Fprintln(stream, port)
	sum := sha256.New()
	if _, err := io.Copy(sum, stream); err != nil {
		return err
	}
	fmt.Fprintf(stream, "%x", sum.Sum(nil))
	return stream.Close()
}

// serveStreams acts as the target's API server, and counts the requests that have not ended.
func serveStreams(t *testing.T, running chan struct{}) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		defer func() { <-running }()
		query := r.URL.Query()
		switch protocols := serverremotecommand.SupportedStreamingProtocols; {
		case strings.HasSuffix(r.URL.Path, "/exec"):
			serveExec(t)(w, r)
		case strings.HasSuffix(r.URL.Path, "/attach"):
			streams := &serverremotecommand.Options{
				Stdin: query.Get("stdin") == "true", Stdout: query.Get("stdout") == "true",
				Stderr: query.Get("stderr") == "true",
			}
			serverremotecommand.ServeAttach(w, r, echo{}, "", "", query.Get("container"), streams,
				time.Minute, time.Minute, protocols)
		case strings.HasSuffix(r.URL.Path, "/portforward"):
			serverportforward.ServePortForward(w, r, echo{}, "", "", &serverportforward.V4Options{},
				time.Minute, time.Minute, serverportforward.SupportedProtocols)
		}
	}
}

func (f *fixture) config() *rest.Config {
	return &rest.Config{
		Host: f.server.URL, BearerToken: "admin",
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(f.server.Certificate().Raw)},
	}
}

func (f *fixture) spdy(t *testing.T, path string) (remotecommand.Executor, error) {
	t.Helper()
	location, err := url.Parse(f.server.URL + path)
	if err != nil {
		return nil, err
	}
	return remotecommand.NewSPDYExecutor(f.config(), http.MethodPost, location)
}

// dial opens a connection for forwarded ports.
func (f *fixture) dial(t *testing.T) httpstream.Connection {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(f.config())
	if err != nil {
		t.Fatal(err)
	}
	location, err := url.Parse(f.server.URL + "/portForward/default/web")
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, location)
	connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// stream opens the streams of one forwarded connection.
func stream(t *testing.T, connection httpstream.Connection, id, port string) httpstream.Stream {
	t.Helper()
	headers := http.Header{}
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, id)
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := connection.CreateStream(headers)
	if err != nil {
		t.Fatal(err)
	}
	_ = failures.Close()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestForwardedPortsCarryLargeDataAndEndByHalves(t *testing.T) {
	f := newFixture(t, serveStreams(t, make(chan struct{}, 1)), everyone())
	connection := f.dial(t)
	defer func() { _ = connection.Close() }()
	for id, port := range map[string]string{"1": "80", "2": "8080"} {
		data, sum := stream(t, connection, id, port), sha256.New()
		if _, err := io.CopyN(io.MultiWriter(data, sum), rand.Reader, large/2); err != nil {
			t.Fatal(err)
		}
		if err := data.Close(); err != nil { // Only this half: the answer comes afterwards.
			t.Fatal(err)
		}
		got, err := io.ReadAll(data)
		if want := fmt.Sprintf("%s\n%x", port, sum.Sum(nil)); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func TestAttachCarriesLargeData(t *testing.T) {
	f := newFixture(t, serveStreams(t, make(chan struct{}, 1)), everyone())
	executor, err := f.spdy(t, "/attach/default/web/app?input=1&output=1&error=1")
	if err != nil {
		t.Fatal(err)
	}
	sent, received := sha256.New(), sha256.New()
	in := io.TeeReader(io.LimitReader(rand.Reader, large), sent)
	streams := remotecommand.StreamOptions{Stdin: in, Stdout: received, Stderr: io.Discard}
	err = executor.StreamWithContext(t.Context(), streams)
	if err != nil || !bytes.Equal(sent.Sum(nil), received.Sum(nil)) {
		t.Errorf("the checksums differ, or %v", err)
	}
}

// sizes acts as a container with a terminal, and ends with an exit code when it has the size 7 × 5.
type sizes struct{ echo }

//nolint:revive // argument-limit: the interface wants it.
func (sizes) ExecInContainer(
	_ context.Context, _, _, _ string, _ []string, _ io.Reader, _, _ io.WriteCloser, tty bool,
	resize <-chan serverremotecommand.TerminalSize, _ time.Duration,
) error {
	for size := range resize {
		if tty && size.Width == 7 && size.Height == 5 {
			return utilexec.CodeExitError{Err: errors.New("exit"), Code: 42}
		}
	}
	return nil
}

// queue has one size of a terminal.
type queue chan remotecommand.TerminalSize

func (q queue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &size
}

func TestTerminalsAreResizedAndExitCodesArrive(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		streams := &serverremotecommand.Options{Stdout: true, TTY: r.URL.Query().Get("tty") == "true"}
		serverremotecommand.ServeExec(w, r, sizes{}, "", "", "", nil, streams, time.Minute, time.Minute,
			serverremotecommand.SupportedStreamingProtocols)
	}, everyone())
	executor, err := f.spdy(t, "/exec/default/web/app?output=1&tty=1")
	if err != nil {
		t.Fatal(err)
	}
	terminal := make(queue, 1)
	terminal <- remotecommand.TerminalSize{Width: 7, Height: 5}
	defer close(terminal)
	err = executor.StreamWithContext(t.Context(),
		remotecommand.StreamOptions{Stdout: io.Discard, Tty: true, TerminalSizeQueue: terminal})
	if exit := (clientexec.CodeExitError{}); !errors.As(err, &exit) || exit.Code != 42 {
		t.Errorf("got %v", err)
	}
}

// TestStreamsLeaveNothingBehind opens many streams of each kind. Half of the callers end them, and half just leave.
func TestStreamsLeaveNothingBehind(t *testing.T) {
	const streams = 51 // of these, 17 of each kind
	running := make(chan struct{}, streams)
	f := newFixture(t, serveStreams(t, running), everyone())
	f.echo(t, "/exec/default/web/app?command=cat&input=1&output=1&error=1")() // It makes connections to the source.
	waittest.Eventually(t, "the stream has ended", func() bool { return len(running) == 0 })
	before := runtime.NumGoroutine()
	var ends []func()
	for i := range streams {
		switch i % 3 {
		case 0:
			ends = append(ends, f.echo(t, "/exec/default/web/app?command=cat&input=1&output=1&error=1"))
		case 1:
			ends = append(ends, f.echo(t, "/attach/default/web/app?input=1&output=1&error=1"))
		default:
			connection := f.dial(t)
			data := stream(t, connection, "1", "80")
			if _, err := io.ReadFull(data, make([]byte, len("80\n"))); err != nil {
				t.Fatal(err)
			}
			ends = append(ends, func() { _ = connection.Close() })
		}
	}
	if len(running) != streams {
		t.Errorf("%d streams are open, want %d", len(running), streams)
	}
	for _, end := range ends {
		end()
	}
	waittest.Eventually(t, "nothing is left", func() bool {
		return len(running) == 0 && runtime.NumGoroutine() <= before
	})
	if _, err := f.served.streams.Begin(f.target.Key); err != nil {
		t.Error(err)
	}
}

// echo opens a stream, and returns what makes its caller leave without a word.
func (f *fixture) echo(t *testing.T, path string) (leave func()) {
	t.Helper()
	executor, err := f.spdy(t, path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, input := io.Pipe()
	output, out := io.Pipe()
	done := make(chan struct{})
	streams := remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: io.Discard}
	go func() {
		defer close(done)
		_ = executor.StreamWithContext(ctx, streams)
	}()
	if _, err := io.WriteString(input, "ping"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(output, make([]byte, len("ping"))); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = errors.Join(in.Close(), output.Close())
		cancel()
		<-done
	}
}

// upgradedTo acts as a target that upgrades, and then does something with the connection.
func upgradedTo(t *testing.T, do func(net.Conn)) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "test")
		w.WriteHeader(http.StatusSwitchingProtocols)
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = connection.Close() }()
		do(connection)
	}
}

// upgrade returns the caller's connection after an upgrade.
func (f *fixture) upgrade(t *testing.T) io.ReadWriteCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/attach/default/web/app", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer admin")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "test")
	answer, err := f.server.Client().Do(r) //nolint:bodyclose // The caller closes the connection.
	if err != nil {
		t.Fatal(err)
	}
	connection, ok := answer.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("answer %d", answer.StatusCode)
	}
	return connection
}

func TestACallerWhoLeavesEndsTheStreamOfATargetThatSaysNothing(t *testing.T) {
	ended := make(chan struct{})
	f := newFixture(t, upgradedTo(t, func(c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		if err == nil { // Half of the connection would be open still.
			_, err = c.Write([]byte("more"))
			for err == nil {
				_, err = c.Write([]byte("more"))
			}
		}
		close(ended)
	}), everyone())
	_ = f.upgrade(t).Close()
	waittest.Receive(t, "the end of the target", ended)
	waittest.Eventually(t, "no stream is open", f.noStreams)
}

func TestACallerWhoStaysIsLeftAfterTheTarget(t *testing.T) {
	f := newFixture(t, upgradedTo(t, func(c net.Conn) { _, _ = c.Write([]byte("last words")) }), everyone())
	connection := f.upgrade(t)
	defer func() { _ = connection.Close() }()
	got, err := io.ReadAll(connection)
	if err != nil || string(got) != "last words" {
		t.Errorf("got %q, %v", got, err)
	}
	if f.noStreams() {
		t.Error("the caller had no time to read")
	}
	waittest.Eventually(t, "the server waits", f.clock.HasWaiters)
	f.clock.Step(lingerTimeout)
	waittest.Eventually(t, "no stream is open", f.noStreams)
}

// endedTarget is a connection that the target has ended. What it sent arrives when the test lets it.
type endedTarget struct {
	io.Reader

	// signs has what the caller sends, and the target refuses.
	signs, arrives, closed chan struct{}
	close                  sync.Once
}

func (e *endedTarget) Write([]byte) (int, error) {
	e.signs <- struct{}{}
	return 0, &net.OpError{Op: "write", Err: syscall.EPIPE}
}

func (e *endedTarget) Read(p []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, net.ErrClosed
	case <-e.arrives:
		return e.Reader.Read(p)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (e *endedTarget) Close() error {
	e.close.Do(func() { close(e.closed) })
	return nil
}

// Clients send a sign of life every 5 s. What a target sent before its end may take longer to arrive.
func TestACallerWhoSendsAfterTheEndOfTheTargetGetsAll(t *testing.T) {
	for name, end := range map[string]error{
		"an orderly end": io.EOF, "a reset": &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"an end within a record of TLS": io.ErrUnexpectedEOF,
	} {
		t.Run(name, func(t *testing.T) {
			target := &endedTarget{
				Reader: io.MultiReader(strings.NewReader("last words"), iotest.ErrReader(end)),
				signs:  make(chan struct{}, 3), arrives: make(chan struct{}), closed: make(chan struct{}),
			}
			clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
			connection, answers := upgradeTo(t, &Server{options: Options{Clock: clock}}, target)
			sign := func() {
				t.Helper()
				fmt.Fprint(connection, "here")
				waittest.Receive(t, "a sign of life", target.signs)
			}
			sign()
			waittest.Eventually(t, "the time of the caller to run, although it reads nothing", clock.HasWaiters)
			sign()
			close(target.arrives)
			if got, err := io.ReadAll(answers); err != nil || string(got) != "last words" {
				t.Errorf("got %q, %v", got, err)
			}
			sign() // The caller's connection is still there, so nothing is lost that is on its way.
		})
	}
}

// upgradeTo returns a caller's connection that a server joins with the target's.
func upgradeTo(t *testing.T, s *Server, target io.ReadWriteCloser) (net.Conn, io.Reader) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller := &upgrading{ResponseWriter: w}
		proxy := &httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", "target" },
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: http.StatusSwitchingProtocols, Body: target, Request: r,
					Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"test"}},
				}, nil
			}),
			ModifyResponse: func(answer *http.Response) error {
				s.join(r.Context(), caller, answer)
				return nil
			},
		}
		proxy.ServeHTTP(caller, r)
	}))
	t.Cleanup(server.Close)
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	fmt.Fprint(connection, "GET / HTTP/1.1\r\nHost: c1\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
	answers := bufio.NewReader(connection)
	answer, err := http.ReadResponse(answers, nil) //nolint:bodyclose // The connection is closed.
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", answer, err)
	}
	return connection, answers
}

// noStreams says whether no stream is open.
func (f *fixture) noStreams() bool { return f.served.streams.Open() == 0 }

func TestATargetOfAnEarlierVersionSaysWhichRightIsMissing(t *testing.T) {
	f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"kind":"Status","message":"User \"c1\" cannot create resource \"pods/attach\"","code":403}`)
	}, everyone())
	code, body := f.request(t, "POST", "/attach/default/web/app", "admin")
	if code != http.StatusForbidden || !strings.HasPrefix(body, "{") ||
		!strings.Contains(body, "needs create and get on pods/attach: upgrade the chart there") {
		t.Errorf("answer %d %q", code, body)
	}
}
