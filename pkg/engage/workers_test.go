package engage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestWorkersThatEndLogNoErrors has keys in the queue when the workers end, and one that a worker has.
func TestWorkersThatEndLogNoErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls int
		var logged []string
		w := NewWorkers(WorkersOptions[int]{
			Name: "test", Count: 1, FirstRetry: time.Second, LastRetry: time.Minute,
			Logger: funcr.New(func(_, text string) { logged = append(logged, text) }, funcr.Options{}),
			Reconciler: reconcile.TypedFunc[int](func(ctx context.Context, _ int) (reconcile.Result, error) {
				calls++
				<-ctx.Done()
				return reconcile.Result{}, errors.New("the request was canceled")
			}),
		})
		ctx, end := context.WithCancel(t.Context())
		for key := range 100 {
			w.Queue.Add(key)
		}
		if err := w.Start(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		end()
		synctest.Wait()
		if left := w.Queue.Len(); calls != 1 || left != 0 {
			t.Errorf("%d keys were worked on, and %d stay in the queue, want 1 and 0", calls, left)
		}
		for _, text := range logged {
			if strings.Contains(text, `"error"=`) {
				t.Error(text)
			}
		}
	})
}
