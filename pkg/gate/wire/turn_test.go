package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listOfSize returns the beginning of a list of this many bytes. `]}` completes it.
func listOfSize(size int) string {
	const head, tail = `{"kind":"ConfigMapList","apiVersion":"v1","items":[{"a":"`, `"}`
	return head + strings.Repeat("a", size-len(head)-len(tail)) + tail
}

// serveLists serves lists of up to 1 KiB, and larger ones.
func serveLists(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Query().Get("fieldSelector") {
	case "unfinished":
		sendJSON(w, listOfSize(1<<10+1))
		<-r.Context().Done()
	case "large":
		sendJSON(w, listOfSize(2<<10)+"]}")
	default:
		sendJSON(w, listOfSize(1<<10-2)+"]}")
	}
}

func TestLargeListsComeOneAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, turn := Default(), NewTurn()
		limits.LargeList = 1 << 10
		share := func(o *Options) { o.Turn = turn }
		first, second := newBubbleFixture(t, limits, serveLists, share), newBubbleFixture(t, limits, serveLists, share)
		list := func(ctx context.Context, which string) error {
			_, err := second.client.CoreV1().ConfigMaps("a").List(ctx, metav1.ListOptions{FieldSelector: which})
			return err
		}
		unfinished := first.watch(t, "fieldSelector=unfinished")
		if _, err := io.ReadFull(unfinished, make([]byte, 1<<10+1)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := list(t.Context(), "small"); err != nil || time.Since(begun) > 0 {
			t.Errorf("a small list: after %s, %v", time.Since(begun), err)
		}
		short, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := list(short, "large"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a large list does not wait for its turn: %v", err)
		}
		_ = unfinished.Close()
		for range 3 { // The turn is given on.
			if err := list(t.Context(), "large"); err != nil {
				t.Errorf("a large list after the other one: %v", err)
			}
		}
	})
}

func TestTheTimeOfAListBeginsAnewWithItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, turn := Default(), NewTurn()
		limits.LargeList = 1 << 10
		f := newBubbleFixture(t, limits, func(w http.ResponseWriter, r *http.Request) {
			sendJSON(w, listOfSize(2<<10))
			<-r.Context().Done()
		}, func(o *Options) { o.Turn = turn })
		if err := turn.take(t.Context()); err != nil {
			t.Fatal(err)
		}
		begun, list := time.Now(), readAll(f.watch(t, ""))
		pass(10 * time.Minute)
		turn.give()
		if got := <-list; !isTimeout(got.err, "a list") || time.Since(begun) != 11*time.Minute {
			t.Errorf("after %s: %v", time.Since(begun), got.err)
		}
		if err := turn.take(t.Context()); err != nil {
			t.Errorf("the turn is not given on: %v", err)
		}
	})
}
