package wire

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

func TestWatchesLiveOn(t *testing.T) {
	fake, more, ended := testclock.NewFakeClock(time.Now()), make(chan string), make(chan struct{}, 2)
	f := newFixture(t, Default(), fake, func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		sendJSON(w, "")
		for {
			select {
			case text := <-more:
				sendJSON(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
	for _, query := range []string{"watch=true", "watch=1&sendInitialEvents=true"} {
		stream := f.watch(t, query)
		expect := func(text string) {
			t.Helper()
			more <- text
			if _, err := io.ReadFull(stream, make([]byte, len(text))); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		expect(`{"a":{"k8s.io/initial-events-end":"true"}}`)
		for range 3 { // It rests for a day, and its events are larger than an object together.
			fake.Step(24 * time.Hour)
			expect(`{"a":"` + strings.Repeat("a", 2<<20) + `"}` + "\n")
		}
		if fake.HasWaiters() {
			t.Error("a timer runs although the watch rests")
		}
		_ = stream.Close()
		<-ended // It would take the first event of the next watch.
	}
}

func TestAnEventThatHasBegunMustEnd(t *testing.T) {
	fake := testclock.NewFakeClock(time.Now())
	f := newFixture(t, Default(), fake, func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, `{"a":`)
		<-r.Context().Done()
	})
	for _, query := range []string{"watch=true", "watch=true&sendInitialEvents=true"} {
		stream := f.watch(t, query)
		result := make(chan error, 1)
		go func() {
			_, err := io.ReadAll(stream)
			result <- err
		}()
		for err := error(nil); err == nil; {
			select {
			case err = <-result:
				timeout := (*TimeoutError)(nil)
				if !errors.As(err, &timeout) {
					t.Errorf("%s: got %v", query, err)
				}
			default:
				if fake.HasWaiters() {
					fake.Step(time.Minute)
				}
			}
		}
	}
	if err := f.account.Violation(); err != nil {
		t.Errorf("to be slow is a violation: %v", err)
	}
}

func TestASlowAnswerIsGivenUp(t *testing.T) {
	limits := Default()
	limits.Request, limits.Relist = 50*time.Millisecond, 50*time.Millisecond
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // A byte at a time.
			sendJSON(w, " ")
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	_, listed := f.client.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{})
	for _, err := range []error{f.get(t), listed} {
		timeout := (*TimeoutError)(nil)
		if !errors.As(err, &timeout) {
			t.Errorf("got %v", err)
		}
	}
}

func TestAWatchThatExceedsItsRateIsNotRead(t *testing.T) {
	limits := Default()
	limits.Rate, limits.Burst = 1, 2*chunk
	f := newFixture(t, limits, clock.RealClock{}, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			sendJSON(w, strings.Repeat("{}\n", 1<<12))
		}
	})
	stream := f.watch(t, "watch=true")
	read := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, stream)
		read <- n
	}()
	for f.account.bucket.Tokens() > 0 { // Reading empties the bucket, and waits then.
		if t.Context().Err() != nil {
			t.Fatal("it is not read")
		}
	}
	_ = stream.Close()
	if n := <-read; n > 4*chunk {
		t.Errorf("read %d bytes", n)
	}
}
