package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

func TestAWatchThatFailsIsBegunAtALowRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(clock.RealClock{})
		begun := time.Now()
		for range 12 {
			if err := p.wait(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			p.note("a", http.StatusGone)
		}
		// 0.5, 1, 2, 4, 8, 16, and then 30 s, each up to half as long again
		if took := time.Since(begun); took < 180*time.Second || took > 280*time.Second {
			t.Errorf("12 attempts took %s", took)
		}
		if !p.fails() {
			t.Error("the watch does not count as failing")
		}
		other := time.Now()
		_ = p.wait(t.Context(), "b")
		p.note("a", http.StatusOK)
		_ = p.wait(t.Context(), "a")
		if p.fails() || time.Since(other) > 0 {
			t.Error("it is paced although it works")
		}
	})
}

func TestRefusalsOfWatchesAndOldFailuresDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(clock.RealClock{})
		for range 2 * failing {
			p.note("a", http.StatusForbidden)
		}
		if p.fails() {
			t.Error("a refusal counts")
		}
		for range failing - 1 {
			p.note("a", 0)
		}
		if p.fails() {
			t.Error("it counts too early")
		}
		if p.note("a", 0); !p.fails() {
			t.Error("no answer does not count")
		}
		pass(stale)
		if p.note("b", http.StatusOK); !p.fails() {
			t.Error("it is forgotten too early")
		}
		pass(1)
		if p.fails() {
			t.Error("a watch that nobody begins again counts")
		}
		if p.note("b", http.StatusOK); len(p.failures) > 0 {
			t.Error("a watch that nobody begins again is kept")
		}
		for status, counts := range map[int]bool{
			http.StatusContinue: true, http.StatusOK: false, 399: false, http.StatusBadRequest: true,
		} {
			p := newPace(clock.RealClock{})
			if p.note("a", status); (p.failures["a"].number == 1) != counts {
				t.Errorf("status %d counts as a failure: %t", status, !counts)
			}
		}
	})
}

func TestAnswersAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Int64
		type answer struct {
			Status int
			Took   time.Duration
		}
		var answers []answer
		f := newBubbleFixture(t, Default(), func(w http.ResponseWriter, r *http.Request) {
			pass(time.Second)
			if code := int(status.Load()); code != 0 && r.URL.Query().Get("watch") == "" {
				w.WriteHeader(code)
				return
			}
			sendJSON(w, "{}")
		}, func(o *Options) {
			o.Answered = func(status int, took time.Duration) { answers = append(answers, answer{status, took}) }
		})
		_ = f.get(t)
		status.Store(http.StatusServiceUnavailable)
		_ = f.get(t)
		_, _ = f.client.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{})
		_, _ = io.ReadAll(f.watch(t, "watch=1"))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, _ = f.client.CoreV1().ConfigMaps("a").Get(ctx, "b", metav1.GetOptions{}) // The caller gives up.
		_ = f.close()
		_ = f.get(t)
		// client-go may try again when a connection was closed.
		want := []answer{{http.StatusOK, time.Second}, {http.StatusServiceUnavailable, time.Second}, {0, 0}}
		if diff := cmp.Diff(want, slices.Compact(answers)); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestWatchesThatTheServerEndsWithGoneDoNotStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFixture(t, Default(), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusGone)
		})
		begun := time.Now()
		for n := range 3 {
			if f.connection.WatchFails() {
				t.Errorf("WatchFails is true after %d watches", n)
			}
			answer := f.begin(t, "watch=1")
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusGone {
				t.Fatalf("status %d", answer.StatusCode)
			}
		}
		if took := time.Since(begun); took < 3*firstPause || took > 3*firstPause*3/2 {
			t.Errorf("three watches were begun within %s", took)
		}
		if !f.connection.WatchFails() {
			t.Error("WatchFails is false")
		}
		ctx, cancel := context.WithTimeout(t.Context(), firstPause)
		defer cancel()
		_, err := f.client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a watch whose caller waits no longer: %v", err)
		}
	})
}
