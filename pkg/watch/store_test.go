package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// recorder writes down the calls of a Store of versions.
type recorder struct {
	changes, failures []string
}

func (r *recorder) store() *Store[*corev1.Pod, string] {
	show := func(version *string) string {
		if version == nil {
			return "none"
		}
		return *version
	}
	return NewStore(StoreOptions[*corev1.Pod, string]{
		EntryOf: func(pod *corev1.Pod) string { return pod.ResourceVersion },
		Listed: func(before map[string]string) {
			r.changes = append(r.changes, fmt.Sprintf("listed, %d before, first %t", len(before), before == nil))
		},
		Changed: func(name string, before, after *string) {
			r.changes = append(r.changes, fmt.Sprintf("%s %s to %s", name, show(before), show(after)))
		},
		Failed: func(err error) { r.failures = append(r.failures, err.Error()) },
	})
}

func version(name, version string) *corev1.Pod {
	p := pod(name)
	p.ResourceVersion = version
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAStoreReportsChangedEntries(t *testing.T) {
	r := &recorder{}
	s := r.store()
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{
			"the first list",
			func() error { return s.Replace([]any{version("a", "1"), version("b", "2")}, "") },
			[]string{"listed, 0 before, first true"},
		},
		{"an update", func() error { return s.Update(version("a", "3")) }, []string{"a 1 to 3"}},
		{"the same again", func() error { return s.Update(version("a", "3")) }, nil},
		{"a new object", func() error { return s.Add(version("c", "4")) }, []string{"c none to 4"}},
		{"a deletion", func() error { return s.Delete(version("b", "5")) }, []string{"b 2 to none"}},
		{"a deletion of an object that has no entry", func() error { return s.Delete(version("x", "6")) }, nil},
		{
			"a list after the watch was broken",
			func() error { return s.Replace([]any{version("c", "7"), version("d", "8")}, "") },
			[]string{"listed, 2 before, first false"},
		},
	}
	for _, step := range steps {
		r.changes = nil
		must(t, step.do())
		slices.Sort(r.changes)
		if diff := cmp.Diff(step.want, r.changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"c": "7", "d": "8"}, s.Entries()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if s.Entry("a") != nil {
		t.Error("an object that was deleted while the watch was broken has an entry")
	}
}

func TestAnEventBeforeTheFirstListIsAnError(t *testing.T) {
	r := &recorder{}
	s := r.store()
	for name, event := range map[string]func(any) error{"add": s.Add, "update": s.Update, "delete": s.Delete} {
		if err := event(version("a", "1")); !errors.Is(err, ErrNotListed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Err(); !errors.Is(err, ErrNotListed) || len(r.changes) > 0 {
		t.Errorf("after the events: %v, changes %v", err, r.changes)
	}
}

func TestWaitingForAStoreEndsWithItsFirstFailure(t *testing.T) {
	r := &recorder{}
	s := r.store()
	if err := s.Err(); !errors.Is(err, ErrNotListed) {
		t.Errorf("before anything is known: %v", err)
	}
	s.fail(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")))
	if err := s.Wait(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("Wait: %v", err)
	}
	s.fail(errors.New("again"))
	if len(r.failures) != 1 {
		t.Errorf("every failure is reported: %v", r.failures)
	}
	must(t, s.Replace(nil, ""))
	must(t, s.Wait(t.Context()))
	s.fail(errors.New("later"))
	must(t, s.Wait(t.Context())) // The old list will do.
	if len(r.failures) != 2 {
		t.Errorf("a failure after the watch worked is not reported: %v", r.failures)
	}
}

func TestAStoreIsSureOfAbsenceOnlyWhileItsWatchWorks(t *testing.T) {
	s := (&recorder{}).store()
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"before the first list", func() {}, false},
		{"after a list without the object", func() { must(t, s.Replace(nil, "")) }, true},
		{"after a failure", func() { s.fail(errors.New("forbidden since")) }, false},
		{"after an event of another object", func() { must(t, s.Add(version("other", "1"))) }, true},
		{"after another failure", func() { s.fail(errors.New("forbidden since")) }, false},
		{"after the next list", func() { must(t, s.Replace(nil, "")) }, true},
		{"after a list with the object", func() { must(t, s.Replace([]any{version("new", "2")}, "")) }, false},
	} {
		step.do()
		if got := s.Lacks("new"); got != step.want {
			t.Errorf("%s: Lacks returns %t", step.name, got)
		}
	}
}

func TestAListThatFailsIsReported(t *testing.T) {
	r := &recorder{}
	s := r.store()
	ctx, end := context.WithCancel(t.Context())
	failed := s.options.Failed
	s.options.Failed = func(err error) { failed(err); end() }
	s.Run(ctx, "test", clock.RealClock{}, &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, errors.New("no")
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
			return nil, errors.New("no")
		},
	})
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "no") {
		t.Errorf("failures %q", r.failures)
	}
}

func TestAStoreWaitsLongerAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists []time.Time
		ctx, end := context.WithCancel(t.Context())
		(&recorder{}).store().Run(ctx, "test", clock.RealClock{}, &toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				if lists = append(lists, time.Now()); len(lists) > 12 {
					end()
				}
				return nil, errors.New("no")
			},
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
				return nil, errors.New("no")
			},
		})
		least := 800 * time.Millisecond
		for i := range lists[1:] {
			if waited := lists[i+1].Sub(lists[i]); waited < least || waited > 2*least {
				t.Errorf("after failure %d it waited %s, want %s to %s", i+1, waited, least, 2*least)
			}
			least = min(2*least, 30*time.Second)
		}
	})
}

func TestAStoreThatDoesNotMeasureItsEntriesSaysNothingOfThem(t *testing.T) {
	s := NewStore(StoreOptions[*corev1.Pod, string]{
		EntryOf: func(pod *corev1.Pod) string { return pod.ResourceVersion },
		Kept:    func(entries, bytes int64) { t.Errorf("%d entries of %d bytes", entries, bytes) },
	})
	must(t, s.Replace([]any{version("a", "1")}, ""))
}

func TestNobodyWaitsForAStoreWhoseRunHasEnded(t *testing.T) {
	r := &recorder{}
	s := r.store()
	ctx, end := context.WithCancel(t.Context())
	s.Run(ctx, "test", clock.RealClock{}, &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			end()
			return nil, context.Canceled
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (apiwatch.Interface, error) {
			return nil, context.Canceled
		},
	})
	if err := s.Wait(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("Wait: %v", err)
	}
	if len(r.failures) > 0 {
		t.Errorf("the end is reported as a failure: %q", r.failures)
	}
}

func TestAStoreSaysHowMuchItKeeps(t *testing.T) {
	var entries, bytes int64
	s := NewStore(StoreOptions[*corev1.Pod, string]{
		EntryOf: func(pod *corev1.Pod) string { return pod.ResourceVersion },
		SizeOf:  func(name string, version *string) int64 { return int64(len(name) + len(*version)) },
		Kept:    func(e, b int64) { entries, bytes = entries+e, bytes+b },
	})
	for _, step := range []struct {
		name           string
		do             func() error
		entries, bytes int64
	}{
		{"a list", func() error { return s.Replace([]any{version("a", "1"), version("b", "1")}, "") }, 2, 4},
		{"a change", func() error { return s.Update(version("a", "123")) }, 2, 6},
		{"the same again", func() error { return s.Update(version("a", "123")) }, 2, 6},
		{"a new object", func() error { return s.Add(version("c", "1")) }, 3, 8},
		{"a deletion", func() error { return s.Delete(version("b", "9")) }, 2, 6},
		{"another list", func() error { return s.Replace([]any{version("d", "1")}, "") }, 1, 2},
	} {
		must(t, step.do())
		if entries != step.entries || bytes != step.bytes {
			t.Errorf(
				"after %s: %d entries of %d bytes, want %d of %d",
				step.name,
				entries,
				bytes,
				step.entries,
				step.bytes,
			)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s.Run(ended, "test", clock.RealClock{}, &toolscache.ListWatch{})
	if entries != 0 || bytes != 0 {
		t.Errorf("at the end: %d entries of %d bytes", entries, bytes)
	}
}
