package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	serverremotecommand "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

func TestFollowedLogArrivesLineByLineAndEndsWithItsReader(t *testing.T) {
	ended, more := make(chan struct{}), make(chan string)
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for {
			select {
			case line := <-more:
				fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}, everyone())
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.server.URL+logsPath+"?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer admin")
	go func() { more <- "one" }()
	response, err := f.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 4)
	for _, line := range []string{"one\n", "two\n"} {
		if line == "two\n" {
			more <- "two"
		}
		if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != line {
			t.Fatalf("read %q, %v; want %q", buffer, err, line)
		}
	}
	cancel()
	<-ended
	_ = response.Body.Close()
}

func TestTargetThatDoesNotAnswerTimesOut(t *testing.T) {
	asked := make(chan struct{})
	f := newFixture(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	}, everyone())
	go func() {
		<-asked
		f.clock.Step(answerTimeout)
	}()
	code, body := f.request(t, "GET", logsPath, "admin")
	if code != http.StatusGatewayTimeout || !strings.Contains(body, "did not answer within 30s") {
		t.Errorf("answer %d %q", code, body)
	}
}

// While a connection is closed, an answer may still arrive. Without a check, a few of these requests get it.
func TestAnAnswerAfterTheLimitIsNone(t *testing.T) {
	var f *fixture
	f = newFixture(t, func(http.ResponseWriter, *http.Request) { f.clock.Step(answerTimeout) }, everyone())
	for range 200 {
		if code, body := f.request(t, "GET", logsPath, "admin"); code != http.StatusGatewayTimeout {
			t.Fatalf("answer %d %q", code, body)
		}
	}
}

// echo acts as a container. Its only program prints its arguments to standard error, and copies its input to its
// output.
type echo struct{}

//nolint:revive // the arguments are those of the interface
func (echo) ExecInContainer(
	_ context.Context, _, _, container string, command []string, in io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan serverremotecommand.TerminalSize, _ time.Duration,
) error {
	fmt.Fprint(errs, container, command)
	_, err := io.Copy(out, in)
	return err
}

// serveExec acts as the target's API server.
func serveExec(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+sourceToken {
			t.Errorf("authorization %q", got)
		}
		query := r.URL.Query()
		streams := &serverremotecommand.Options{
			Stdin: query.Get("stdin") == "true", Stdout: query.Get("stdout") == "true",
			Stderr: query.Get("stderr") == "true",
		}
		serverremotecommand.ServeExec(w, r, echo{}, "", "", query.Get("container"), query["command"], streams,
			time.Minute, time.Minute, serverremotecommand.SupportedStreamingProtocols)
	}
}

func TestExecIsInteractive(t *testing.T) {
	f := newFixture(t, serveExec(t), everyone())
	config := &rest.Config{
		Host: f.server.URL, BearerToken: "admin",
		TLSClientConfig: rest.TLSClientConfig{CAData: pemOf(f.server.Certificate().Raw)},
	}
	location := f.server.URL + "/exec/default/web/app?command=echo&command=a+b&input=1&output=1&error=1"
	executors := map[string]func() (remotecommand.Executor, error){
		"SPDY": func() (remotecommand.Executor, error) {
			parsed, err := url.Parse(location)
			if err != nil {
				return nil, err
			}
			return remotecommand.NewSPDYExecutor(config, http.MethodPost, parsed)
		},
		"WebSocket": func() (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutorForProtocols(config, http.MethodGet, location,
				serverremotecommand.StreamProtocolV4Name)
		},
	}
	for name, executor := range executors {
		t.Run(name, func(t *testing.T) {
			e, err := executor()
			if err != nil {
				t.Fatal(err)
			}
			in, input := io.Pipe()
			output, out := io.Pipe()
			var errs bytes.Buffer
			done := make(chan error, 1)
			go func() {
				streams := remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &errs}
				done <- e.StreamWithContext(t.Context(), streams)
			}()
			for _, word := range []string{"ping", "pong"} {
				if _, err := io.WriteString(input, word); err != nil {
					t.Fatal(err)
				}
				back := make([]byte, len(word))
				if _, err := io.ReadFull(output, back); err != nil || string(back) != word {
					t.Fatalf("got back %q, %v; want %q", back, err, word)
				}
			}
			if name == "SPDY" { // Protocol v4 over WebSocket cannot signal the end of the input.
				if err := errors.Join(input.Close(), <-done); err != nil {
					t.Error(err)
				}
				if got := errs.String(); got != "app[echo a b]" {
					t.Errorf("the program got %q", got)
				}
			}
		})
	}
}

func TestStreamsAreCountedByTarget(t *testing.T) {
	f := newFixture(t, func(http.ResponseWriter, *http.Request) {}, everyone())
	var ends []func()
	for range wire.StreamsPerTarget {
		end, err := f.served.streams.Begin(f.target.Key)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	code, body := f.request(t, "GET", logsPath, "admin")
	if code != http.StatusTooManyRequests || !strings.Contains(body, "100 streams to the cluster are open; end some") {
		t.Errorf("answer %d %q", code, body)
	}
	if _, err := f.served.streams.Begin(types.NamespacedName{Name: "c3"}); err != nil {
		t.Errorf("another target: %v", err)
	}
	ends[0]()
	for range 3 { // The stream ends with its request.
		if code, body := f.request(t, "GET", logsPath, "admin"); code != http.StatusOK {
			t.Errorf("answer %d %q", code, body)
		}
	}
}

func TestAnErrorThatDribblesIsGivenUp(t *testing.T) {
	began := make(chan struct{})
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_ = http.NewResponseController(w).Flush()
		close(began)
		<-r.Context().Done()
	}, everyone())
	answered := make(chan struct{})
	go func() {
		<-began
		for {
			select {
			case <-answered:
				return
			default:
				f.clock.Step(answerTimeout)
			}
		}
	}()
	defer close(answered)
	// The wait for the first byte of a log that is followed has no end. The wait for an error has one.
	if code, body := f.request(t, "GET", logsPath+"?follow=true", "admin"); code != http.StatusGatewayTimeout {
		t.Errorf("answer %d %q", code, body)
	}
}
