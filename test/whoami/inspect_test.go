package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLsShowsFilesAsReadersSeeThem(t *testing.T) {
	folder := t.TempDir()
	for _, err := range []error{
		os.Chmod(folder, 0o755),
		os.Mkdir(filepath.Join(folder, "..2026"), 0o700),
		os.WriteFile(filepath.Join(folder, "..2026", "key"), []byte("value"), 0o640),
		os.Symlink(filepath.Join("..2026", "key"), filepath.Join(folder, "key")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p, out, _ := newProcess()
	if err := p.run(t.Context(), []string{"ls", folder}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "drwxr-xr-x ") || !strings.HasPrefix(lines[1], "-rw-r----- ") ||
		!strings.HasSuffix(lines[1], " 5 bytes "+filepath.Join(folder, "key")) {
		t.Errorf("printed %q", lines)
	}
}

func TestFailFailsInItsFirstRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	for run, want := range []int{3, 3, 0} {
		p, _, term := newProcess()
		term <- syscall.SIGTERM
		err := p.run(t.Context(), []string{"fail", file, "2", "3"})
		var code exitError
		if errors.As(err, &code); int(code) != want || (want == 0) != (err == nil) {
			t.Errorf("run %d: %v, want exit code %d", run+1, err, want)
		}
	}
}

func TestMessageWritesAndExits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	p, _, _ := newProcess()
	var code exitError
	if err := p.run(t.Context(), []string{"message", file, "4", "last", "words"}); !errors.As(err, &code) || code != 4 {
		t.Errorf("got %v, want exit code 4", err)
	}
	if content, err := os.ReadFile(file); err != nil || string(content) != "last words\n" {
		t.Errorf("wrote %q, %v", content, err)
	}
}

func TestTarUnpacksWhatItPacked(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{"a": "1", "b": "2"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, out, _ := newProcess()
	if err := p.run(t.Context(), []string{"tar", "cf", "-", from}); err != nil {
		t.Fatal(err)
	}
	if err := unpack(bytes.NewReader(out.Bytes()), to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "1", "b": "2"} {
		if got, err := os.ReadFile(filepath.Join(to, from, name)); err != nil || string(got) != want {
			t.Errorf("file %s has %q (%v), want %q", name, got, err, want)
		}
	}
}

func TestHealthChecksOfGRPCSucceed(t *testing.T) {
	p, _, _ := newProcess()
	answer := httptest.NewRecorder()
	p.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/grpc.health.v1.Health/Check", nil))
	if got := answer.Result().Trailer.Get("Grpc-Status"); got != "0" || answer.Body.Len() != 7 {
		t.Errorf("status %q, %d bytes", got, answer.Body.Len())
	}
}
