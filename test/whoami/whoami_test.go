package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newProcess returns a process of the pod "pod-1", its output, and the channel of its signals.
func newProcess() (process, *bytes.Buffer, chan os.Signal) {
	var out bytes.Buffer
	term := make(chan os.Signal, 1)
	env := map[string]string{"HOSTNAME": "pod-1", "COLOR": "blue"}
	return process{
		out: &out, term: term, environ: []string{"HOSTNAME=pod-1", "COLOR=blue"},
		getenv: func(name string) string { return env[name] },
	}, &out, term
}

func TestServerAnswersWithThePodAndLogsTheRequest(t *testing.T) {
	p, out, _ := newProcess()
	server := httptest.NewServer(p.handler())
	defer server.Close()
	for path, want := range map[string]string{"/": "pod-1\n", "/any/path": "pod-1\n", "/healthz": "ok\n"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if string(body) != want || response.StatusCode != http.StatusOK {
			t.Errorf("%s: %q (%s)", path, body, response.Status)
		}
	}
	if !strings.Contains(out.String(), "GET /any/path from ") {
		t.Errorf("the request is not in the log %q", out)
	}
}

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"print", []string{"print", "a", "b"}, "a b\n"},
		{"echo", []string{"echo", "a"}, "a\n"},
		{"write", []string{"write", file, "to", "a file"}, ""},
		{"cat after write", []string{"cat", file}, "to a file\n"},
		{"env of everything", []string{"env"}, "HOSTNAME=pod-1\nCOLOR=blue\n"},
		{"env of one variable", []string{"env", "COLOR"}, "blue\n"},
		{"sleep for no time", []string{"sleep", "0s"}, "sleeping for 0s\n"},
		{"exit with code 0", []string{"exit", "0"}, ""},
		{"help", []string{"--help"}, usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, out, _ := newProcess()
			if err := p.run(t.Context(), c.args); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("printed %q, want %q", out, c.want)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	p, _, _ := newProcess()
	var code exitError
	if err := p.run(t.Context(), []string{"exit", "7"}); !errors.As(err, &code) || code != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
}

func TestWrongCommandLinesFail(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown command":          {"dance"},
		"an unknown flag":             {"--port=1"},
		"sleep without a duration":    {"sleep"},
		"sleep with a wrong duration": {"sleep", "long"},
		"exit with a wrong code":      {"exit", "x"},
		"exit with too great a code":  {"exit", "256"},
		"cat of a missing file":       {"cat", "/not/there"},
		"write without text":          {"write", "/tmp/x"},
		"serve with an argument":      {"serve", "x"},
		"get without a server":        {"get", "http://127.0.0.1:1/"},
		"serve on a bad address":      {"--address", "nowhere:-1"},
		"an empty command":            {""},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := newProcess()
			if err := p.run(t.Context(), args); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestStreamLogsAnswersAndFailures(t *testing.T) {
	p, out, term := newProcess()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		switch requests {
		case 1, 2:
			_, _ = io.WriteString(w, "pod-1\n")
		case 3:
			w.WriteHeader(http.StatusBadGateway)
		default:
			select {
			case term <- syscall.SIGTERM:
			default: // stream may send another request before it ends.
			}
			_, _ = io.WriteString(w, "pod-2\n")
		}
	}))
	defer server.Close()
	err := p.run(t.Context(), []string{"stream", "--every", "1ms", server.URL})
	if err == nil || err.Error() != "some requests failed" {
		t.Errorf("error is %v", err)
	}
	for _, line := range []string{
		"answered: pod-1", "answered: pod-2", "failed: asking: status 502 Bad Gateway", " times, failed 1 times",
	} {
		if strings.Count(out.String(), line) != 1 {
			t.Errorf("%q is not in the log once:\n%s", line, out)
		}
	}
}

func TestSleepEndsOnTerm(t *testing.T) {
	p, out, term := newProcess()
	term <- syscall.SIGTERM
	if err := p.run(t.Context(), []string{"sleep", "infinity"}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "received SIGTERM\n") {
		t.Errorf("printed %q", out)
	}
}

func TestSleepCanIgnoreTerm(t *testing.T) {
	p, out, term := newProcess()
	slept := make(chan error)
	go func() { slept <- p.run(t.Context(), []string{"sleep", "--ignore-term", "1h"}) }()
	// Only a sleep that did not end after the first signal takes the next ones from the channel.
	for range 3 {
		term <- syscall.SIGTERM
	}
	select {
	case err := <-slept:
		t.Errorf("ended (%v) after printing %q", err, out)
	default:
	}
}

func TestServerEndsOnTerm(t *testing.T) {
	p, out, term := newProcess()
	term <- syscall.SIGTERM
	if err := p.run(t.Context(), []string{"--address", "127.0.0.1:0", "--drain", "1ms"}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), "received SIGTERM\nbye\n") {
		t.Errorf("printed %q", out)
	}
}

func TestTheServerComputesForAsLongAsItIsAsked(t *testing.T) {
	p, _, _ := newProcess()
	server := httptest.NewServer(p.handler())
	defer server.Close()
	begun := time.Now()
	if got, err := ask(t.Context(), server.Client(), server.URL+"/work?for=30ms"); err != nil || got != "pod-1" {
		t.Errorf("answered %q, %v", got, err)
	}
	if took := time.Since(begun); took < 30*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	for _, duration := range []string{"", "long", "-1s", "2h"} {
		if got, err := ask(t.Context(), server.Client(), server.URL+"/work?for="+duration); err == nil {
			t.Errorf("for %q: answered %q", duration, got)
		}
	}
}
