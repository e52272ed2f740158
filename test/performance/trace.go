package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// change is a change of one pod, by its user or, in the target, by its kubelet.
type change struct {
	// send requests the change of a pod.
	send func(context.Context, pair) error
	// wished says whether a pod is to be so, and done whether its status says that it is. One of them can be nil.
	wished, done func(*corev1.Pod) bool
}

// pair is a pod in the source, and the name of its delegate. A plain pod has none.
type pair struct{ pod, delegate string }

// moments are the times of the change of one pod. They are zero until they come. All are by the clock of this process.
type moments struct {
	sent    time.Time // just before the request
	reached time.Time // a watch shows that the delegate is to be so
	done    time.Time // a watch shows that the delegate's status says so
	shown   time.Time // a watch shows that the proxy's status says so
}

// trace records the moments of one change of many pods. Plain pods are their own delegates.
type trace struct {
	change
	changed chan struct{} // has a value if a pod was changed completely

	mu       sync.Mutex // guards the rest
	bySource map[string]*moments
	byTarget map[string]*moments
	first    time.Time // the first request
	last     time.Time // the last complete change
	left     int
}

func newTrace(c change, pairs []pair) *trace {
	t := &trace{
		change: c, changed: make(chan struct{}, 1), left: len(pairs),
		bySource: map[string]*moments{}, byTarget: map[string]*moments{},
	}
	for _, p := range pairs {
		m := &moments{}
		t.bySource[p.pod], t.byTarget[p.delegate] = m, m
	}
	return t
}

// trace watches the pods, and the delegates in the target, until the returned function is called.
func (b *bench) trace(ctx context.Context, c change, kind string, pairs []pair) (*trace, func(), error) {
	t := newTrace(c, pairs)
	if kind == report.Plain {
		stop, err := b.seePods(ctx, source, podLabel, t.seePlain)
		return t, stop, err
	}
	stopSource, err := b.seePods(ctx, source, podLabel, t.seeProxy)
	if err != nil {
		return nil, nil, err
	}
	stopTarget, err := b.seePods(ctx, changeTarget, "", t.seeDelegate)
	if err != nil {
		stopSource()
		return nil, nil, err
	}
	return t, func() { stopSource(); stopTarget() }, nil
}

// ask records that a change is about to be requested.
func (t *trace) ask(p pair) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.bySource[p.pod].sent = now
	if t.first.IsZero() {
		t.first = now
	}
}

func (t *trace) seePlain(obj any) {
	pod := obj.(*corev1.Pod)
	t.see(t.bySource, pod, func(m *moments, now time.Time) {
		t.reach(m, pod, now)
		if t.done != nil && t.done(pod) {
			note(&m.done, now)
			note(&m.shown, now)
		}
	})
}

func (t *trace) seeDelegate(obj any) {
	pod := obj.(*corev1.Pod)
	t.see(t.byTarget, pod, func(m *moments, now time.Time) {
		t.reach(m, pod, now)
		if t.done != nil && t.done(pod) {
			note(&m.done, now)
		}
	})
}

func (t *trace) seeProxy(obj any) {
	pod := obj.(*corev1.Pod)
	t.see(t.bySource, pod, func(m *moments, now time.Time) {
		if t.done != nil && t.done(pod) {
			note(&m.shown, now)
		}
	})
}

func (t *trace) reach(m *moments, pod *corev1.Pod, now time.Time) {
	if t.wished != nil && t.wished(pod) {
		note(&m.reached, now)
	}
}

func note(moment *time.Time, now time.Time) {
	if moment.IsZero() {
		*moment = now
	}
}

// see records what a pod shows, if its change was requested and is not complete.
func (t *trace) see(moments map[string]*moments, pod *corev1.Pod, record func(*moments, time.Time)) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	m, ok := moments[pod.Name]
	if !ok || m.sent.IsZero() || t.complete(m) {
		return
	}
	record(m, now)
	if !t.complete(m) {
		return
	}
	t.left--
	t.last = now
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// complete says whether all moments of a change have come.
func (t *trace) complete(m *moments) bool {
	return (t.wished == nil || !m.reached.IsZero()) && (t.done == nil || !m.done.IsZero() && !m.shown.IsZero())
}

// untilWaiting waits until only so many pods wait for their change.
func (t *trace) untilWaiting(ctx context.Context, n int) error {
	for {
		t.mu.Lock()
		left := t.left
		t.mu.Unlock()
		if left <= n {
			return nil
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods are not changed: %w", left, len(t.bySource), ctx.Err())
		}
	}
}

// summarize fills in the latencies: from the request until the change is complete, or, if only statuses change, from
// the delegate's status to that of the proxy.
func (t *trace) summarize(r *report.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var whole, reached, done, shown []time.Duration
	for _, m := range t.bySource {
		switch {
		case t.wished == nil:
			whole = append(whole, m.shown.Sub(m.done))
		case t.done == nil:
			whole = append(whole, m.reached.Sub(m.sent))
		default:
			whole = append(whole, m.shown.Sub(m.sent))
			reached = append(reached, m.reached.Sub(m.sent))
			done, shown = append(done, m.done.Sub(m.reached)), append(shown, m.shown.Sub(m.done))
		}
	}
	r.P50Seconds, r.P90Seconds, r.P99Seconds = report.Percentiles(whole)
	r.CompleteSeconds = t.last.Sub(t.first).Seconds()
	r.Steps = steps(r.Kind, reached, done, shown)
}

// steps returns the parts of a latency, if it has parts.
func steps(kind string, reached, done, shown []time.Duration) []report.Step {
	if kind == report.Plain || len(reached) == 0 {
		return nil
	}
	var steps []report.Step
	for _, step := range []struct {
		name string
		took []time.Duration
	}{{report.StepReached, reached}, {report.StepDone, done}, {report.StepShown, shown}} {
		p50, _, p99 := report.Percentiles(step.took)
		steps = append(steps, report.Step{Name: step.name, P50Seconds: p50, P99Seconds: p99})
	}
	return steps
}
