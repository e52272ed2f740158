package scheduling

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestOfManySummariesOfATargetTheLastOneIsHandledNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var handled []int32
		s := summaries{clock: clock.RealClock{}, handle: func(summary *v1alpha1.ClusterSummary) {
			nodes := int32(-1)
			if summary != nil {
				nodes = summary.Status.Nodes
			}
			mu.Lock()
			defer mu.Unlock()
			handled = append(handled, nodes)
		}}
		report := func(nodes int32) {
			summary := &v1alpha1.ClusterSummary{}
			summary.Status.Nodes = nodes
			s.seen(summary)
		}
		expect := func(when string, want ...int32) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, handled); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
			handled = nil
		}
		for i := range int32(100) {
			report(i)
		}
		expect("the first one at once", 0)
		time.Sleep(summaryInterval)
		expect("the last one later", 99)
		report(100)
		expect("no more within the interval")
		time.Sleep(summaryInterval)
		expect("after the interval", 100)
		time.Sleep(2 * summaryInterval)
		expect("nothing twice")
		report(101)
		s.seen(nil)
		expect("at once after a pause", 101)
		time.Sleep(summaryInterval)
		expect("that it is gone", -1)
	})
}
