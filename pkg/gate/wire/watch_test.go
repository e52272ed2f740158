package wire

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const endOfInitialEvents = `{"a":{"k8s.io/initial-events-end":"true"}}`

// pass lets time pass in a bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // This is the time of the bubble.

// linger lets time pass in a bubble, or less if the client leaves.
func linger(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

func TestWatchesLiveOn(t *testing.T) {
	for _, query := range []string{"watch=true", "watch=1&sendInitialEvents=true"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits, more := Default(), make(chan string)
				limits.Object, limits.List = 64<<10, 128<<10
				f := newBubbleFixture(t, limits, sendFrom(more))
				stream := f.watch(t, query)
				expect := func(text string) {
					t.Helper()
					more <- text
					if _, err := io.ReadFull(stream, make([]byte, len(text))); err != nil {
						t.Fatal(err)
					}
				}
				expect(endOfInitialEvents)
				for range 5 { // It rests for a day, and its events are larger than an object, and a list, together.
					pass(24 * time.Hour)
					expect(`{"a":"` + strings.Repeat("a", 40<<10) + `"}` + "\n")
				}
				_ = stream.Close()
			})
		})
	}
}

// sendFrom sends what it gets until the client leaves.
func sendFrom(more <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sendJSON(w, "")
		for {
			select {
			case text := <-more:
				sendJSON(w, text)
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestAnEventThatHasBegunMustEnd(t *testing.T) {
	const event = "an event of a watch"
	for name, test := range map[string]struct {
		query   string
		pauses  time.Duration // between the parts of an event
		parts   []string
		reading time.Duration // how long nobody reads, between parts
		after   time.Duration
		what    string
	}{
		"at once":           {"watch=true", 0, []string{`{"a":`}, 0, 30 * time.Second, event},
		"among the initial": {"watch=true&sendInitialEvents=true", 0, []string{`{"a":`}, 0, 30 * time.Second, event},
		"however often a part of it comes": {
			"watch=true", 14 * time.Second, []string{`{"a":`, `1`, `2`, `3`}, 0, 30 * time.Second, event,
		},
		"and each has time of its own": {
			"watch=true", 20 * time.Second, []string{`{"a":`, `1}{"a":`, `1}`, `{`}, 0, 90 * time.Second, event,
		},
		"and only the target's time counts": {
			"watch=true", 0, []string{`{"a":`, `1`, `2`}, 20 * time.Second, 90 * time.Second, event,
		},
		"and the initial ones within a minute": {
			"watch=true&sendInitialEvents=true", 20 * time.Second, []string{`{}`, `{}`, `{}`, `{}`}, 0, time.Minute,
			"a list",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newBubbleFixture(t, Default(), func(w http.ResponseWriter, r *http.Request) {
					for i, part := range test.parts {
						if i > 0 {
							linger(r, test.pauses)
						}
						sendJSON(w, part)
					}
					<-r.Context().Done()
				})
				begun, stream := time.Now(), f.watch(t, test.query)
				var err error
				for b := make([]byte, 1<<10); err == nil; {
					if _, err = stream.Read(b); err == nil {
						pass(test.reading)
					}
				}
				if took := time.Since(begun); took != test.after || !isTimeout(err, test.what) {
					t.Errorf("after %s: %v", took, err)
				}
				if err := f.account.Violation(); err != nil {
					t.Errorf("to be slow is a violation: %v", err)
				}
			})
		})
	}
}

func TestASlowAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newBubbleFixture(t, Default(), func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil { // A byte at a time.
				sendJSON(w, " ")
				linger(r, time.Second)
			}
		})
		begun := time.Now()
		if err := f.get(t); !isTimeout(err, "an answer") || time.Since(begun) != 15*time.Second {
			t.Errorf("an object: after %s, %v", time.Since(begun), err)
		}
		begun = time.Now()
		_, err := f.client.CoreV1().ConfigMaps("a").List(t.Context(), metav1.ListOptions{})
		if !isTimeout(err, "a list") || time.Since(begun) != time.Minute {
			t.Errorf("a list: after %s, %v", time.Since(begun), err)
		}
	})
}

func TestAWatchThatExceedsItsRateIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Default()
		limits.Rate, limits.Burst = 1<<10, 2*chunk
		f := newBubbleFixture(t, limits, func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				sendJSON(w, strings.Repeat("{}\n", 1<<12))
			}
		})
		stream := f.watch(t, "watch=true")
		read := readAll(stream)
		pass(time.Minute)
		_ = stream.Close()
		got := <-read
		if allowed := int64(limits.Burst + 60*limits.Rate); got.n > allowed || got.n < allowed-chunk {
			t.Errorf("read %d bytes, want %d", got.n, allowed)
		}
	})
}
