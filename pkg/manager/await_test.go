package manager

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

func TestAManagerAsksItsAPIServerUntilItAnswers(t *testing.T) {
	for name, address := range map[string]string{"no address for probes": "", "probes switched off": "0"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines []string
				log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
				answers := []error{errors.New("one"), errors.New("one"), errors.New("two"), nil}
				began, asked := time.Now(), 0
				err := await(t.Context(), address, time.Minute, log, func(context.Context) error {
					if time.Since(began) < time.Minute {
						t.Error("it asked before the pause was over")
					}
					asked++
					return answers[asked-1]
				})
				if err != nil || asked != len(answers) {
					t.Errorf("it asked %d times, and ended with %v", asked, err)
				}
				if len(lines) != 3 || !strings.Contains(lines[0], "a pause") || !strings.Contains(lines[1], "one") {
					t.Errorf("it logged %q, want the pause, and each reason once", lines)
				}
			})
		})
	}
}

func TestAManagerThatStartsAtOnceLogsNoPause(t *testing.T) {
	log := funcr.New(func(_, line string) { t.Errorf("it logged %q", line) }, funcr.Options{})
	if err := await(t.Context(), "", 0, log, func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestAManagerThatIsToStopAsksNoMore(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	never := func(context.Context) error { t.Error("it asked"); return nil }
	if err := await(ctx, "", time.Hour, logr.Discard(), never); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

func TestAManagerThatWaitsIsAliveAndNotReady(t *testing.T) {
	address := freeAddress(t)
	err := await(t.Context(), address, 0, logr.Discard(), func(context.Context) error {
		if alive := status(t, address, "/healthz"); alive != http.StatusOK {
			t.Errorf("/healthz is %d", alive)
		}
		if ready := status(t, address, "/readyz"); ready != http.StatusServiceUnavailable {
			t.Errorf("/readyz is %d", ready)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the address is not free again: %v", err)
	}
	defer listener.Close()
	if err := await(t.Context(), address, 0, logr.Discard(), nil); err == nil {
		t.Error("an address that another program has is no error")
	}
}

// status returns the status of an answer, or 0 if nobody answers.
func status(t *testing.T, address, path string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}
