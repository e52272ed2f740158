package uninstall

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDecideChaperons(t *testing.T) {
	const notice = 40 * time.Second
	stopped := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		left         int
		after, since time.Duration // of the manager's stop, and of the last PodChaperon
		remove, done bool
	}{
		"sources may place more":                        {left: 3, after: 39 * time.Second},
		"sources may place the first one":               {after: 39 * time.Second, since: 39 * time.Second},
		"sources place no more":                         {left: 3, after: 40 * time.Second, remove: true},
		"a source may not have seen that they are gone": {after: 50 * time.Second, since: 9 * time.Second},
		"sources have seen that they are gone":          {after: 50 * time.Second, since: 10 * time.Second, done: true},
		"there were none":                               {after: 40 * time.Second, since: 40 * time.Second, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := stopped.Add(test.after)
			remove, done := decideChaperons(test.left, now, stopped, now.Add(-test.since), notice)
			if remove != test.remove || done != test.done {
				t.Errorf("remove: %t, done: %t", remove, done)
			}
		})
	}
}

// newTarget returns a run with some time left, in a cluster with objects of sources.
func newTarget(t *testing.T, left time.Duration, funcs interceptor.Funcs, objects ...client.Object) *run {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(time.Now())
	return &run{
		Options: Options{Pods: End, Notice: notice}, clock: clock, until: clock.Now().Add(left), log: logr.Discard(),
		client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build(),
	}
}

func TestWithoutTimeToEndDelegatesTheirCopiesStay(t *testing.T) {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	for name, left := range map[string]time.Duration{"none": 0, "less than sources need": notice} {
		t.Run(name, func(t *testing.T) {
			r := newTarget(t, left, interceptor.Funcs{}, chaperon) // Without a client to delete copies with.
			if err := r.endDelegates(t.Context(), r.clock.Now()); !errors.Is(err, errNoTime) {
				t.Errorf("got %v", err)
			}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(chaperon), chaperon); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAClusterWithoutOurKindsHasNoSources(t *testing.T) {
	none := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupVersion.Group}}
	r := newTarget(t, time.Hour, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return none },
	})
	if unused, err := r.unused(t.Context()); err != nil || !unused {
		t.Errorf("unused: %t, %v", unused, err)
	}
}

func TestProxiesAreWaitedForAsLongAsDelegatesOfSourcesCanEndAfterwards(t *testing.T) {
	const after = stopTimeout + notice
	for name, test := range map[string]struct {
		timeout       time.Duration
		endsDelegates bool
		least, most   time.Duration
	}{
		"there are no delegates of sources": {3 * time.Minute, false, 90 * time.Second, 90 * time.Second},
		"the chart's default":               {3 * time.Minute, true, time.Minute, 3*time.Minute - after},
		"the least that the chart takes":    {150 * time.Second, true, 30 * time.Second, 150*time.Second - after},
		"much time":                         {time.Hour, true, 30 * time.Minute, 30 * time.Minute},
		"too little time":                   {5 * time.Second, true, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := patience(test.timeout, notice, test.endsDelegates)
			if got < test.least || got > test.most {
				t.Errorf("got %s, want %s to %s", got, test.least, test.most)
			}
		})
	}
}
