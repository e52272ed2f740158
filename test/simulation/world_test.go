package simulation

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// world is a source, its targets, and the requests between them.
type world struct {
	*network

	source   *cluster
	targets  []*kubernetes
	manager  *source
	managers []*process // of the targets
	// former are the processes that were frozen while others took over.
	former []*process
	facts  facts
	// reached are the situations that the run came to.
	reached map[string]bool
	// moved and left say that a pod left a target because another one had room, or because the target takes no pods.
	moved, left atomic.Bool
	// began is how many processes of a name have begun.
	began map[string]int
}

// network has the requests of processes, what went wrong, and the steps so far.
type network struct {
	// trace has the labels of all steps.
	trace []string

	mu sync.Mutex // guards the fields below, and the source's attempts
	// calls are those under way, in the order of their labels. late are requests that nobody waits for any more, and
	// that may still be carried out.
	calls, late []*call
	violation   error
	// unpatched are the names of objects that could not be patched.
	unpatched map[string]bool
}

func newWorld() *world {
	w := &world{
		network: &network{}, source: newCluster("source"), facts: newFacts(), reached: map[string]bool{},
		began: map[string]int{},
	}
	w.source.changed = w.proxyChanged
	for _, name := range []string{"c1", "c2"} {
		k := &kubernetes{cluster: newCluster(name), containers: map[types.UID]*container{}}
		k.changed = w.targetChanged
		w.targets = append(w.targets, k)
		w.managers = append(w.managers, w.startTarget(k, 0, 0))
	}
	w.manager = w.startSource(0)
	return w
}

// start starts a goroutine. A panic in it is a violation.
func (w *network) start(what string, f func()) {
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				w.violate("%s: panic: %v\n%s", what, cause, debug.Stack())
			}
		}()
		f()
	}()
}

// failed returns the first violation.
func (w *network) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violation
}

func (w *network) violate(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violation == nil {
		w.violation = fmt.Errorf(format, values...)
	}
}

// overtake drops the late requests of a connection before a later write. A process that gave a request up closes its
// stream, so the request is carried out soon, or not at all. A read may be answered before. Each engagement of a target
// has a connection of its own.
func (w *network) overtake(later *call) {
	if later.verb == "get" || later.verb == "list" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.late, later) {
		w.late = slices.DeleteFunc(w.late, func(c *call) bool {
			return c.by == later.by && c.to == later.to && c.over == later.over
		})
	}
}

func (w *network) noteFailed(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unpatched == nil {
		w.unpatched = map[string]bool{}
	}
	w.unpatched[name] = true
}

func (w *network) park(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, _ := slices.BinarySearchFunc(w.calls, c, func(a, b *call) int { return compareNames(a.label, b.label) })
	w.calls = slices.Insert(w.calls, i, c)
}

// rest waits until nothing happens any more without the simulation, and checks what must always be true.
func (w *world) rest() {
	w.giveUp()
	for _, q := range w.queues() {
		q.due()
	}
	w.check()
}

// giveUp waits until nothing happens any more without the simulation, and notes which requests nobody waits for.
func (w *network) giveUp() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool {
		given := c.ctx.Err() != nil || !c.by.alive()
		if given && !c.served {
			c.givenUp = time.Now()
			if deadline, ok := c.ctx.Deadline(); ok && deadline.Before(c.givenUp) {
				c.givenUp = deadline
			}
			w.late = append(w.late, c)
		}
		return given
	})
	w.late = slices.DeleteFunc(w.late, func(c *call) bool { return time.Since(c.givenUp) >= latest })
}

// latest is how long a request can take that nobody waits for any more.
const latest = 10 * time.Second

// processes returns those that do something.
func (w *world) processes() []*process {
	all := slices.Concat([]*process{w.manager.process}, w.managers, w.former)
	return slices.DeleteFunc(all, func(p *process) bool { return !p.alive() || p.frozen })
}

func (w *world) queues() []*queue {
	var all []*queue
	for _, p := range w.processes() {
		for _, q := range p.queues {
			if q.ctx.Err() == nil {
				all = append(all, q)
			}
		}
	}
	return all
}

// cut says whether a process does not reach a cluster.
func (w *world) cut(p *process, c *cluster) bool {
	return p.of == w.source &&
		slices.ContainsFunc(w.targets, func(k *kubernetes) bool { return k.cut && k.cluster == c })
}

// answerable returns the calls that get an answer if nothing goes wrong.
func (w *world) answerable() []*call {
	return slices.DeleteFunc(w.underWay(), func(c *call) bool { return c.by.frozen || w.cut(c.by, c.to) })
}

func (w *network) underWay() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// behind returns the caches that lag.
func (w *world) behind() []*lagging {
	var all []*lagging
	for _, p := range w.processes() {
		for _, l := range p.caches {
			if l.behind() && l.ctx.Err() == nil && !w.cut(p, l.from) {
				all = append(all, l)
			}
		}
	}
	return all
}

// abandon ends a request that may be under way, and may arrive late.
func (w *network) abandon(c *call) {
	if !c.served {
		c.served = true
		w.mu.Lock()
		late := *c
		late.served, late.givenUp = false, time.Now()
		w.late = append(w.late, &late)
		w.mu.Unlock()
	}
	c.result, c.err = nil, errFenced
	w.answer(c)
}

func (w *network) answer(c *call) {
	w.mu.Lock()
	w.calls = slices.DeleteFunc(w.calls, func(other *call) bool { return other == c })
	w.mu.Unlock()
	close(c.answer)
}

// progress returns what goes on if nothing goes wrong, except that containers end.
func (w *world) progress() []action {
	var all []action
	for _, c := range w.answerable() {
		between := c.by.name + " to " + c.to.name
		all = append(all, action{c.label, func() { c.serve(); w.answer(c) }, between})
	}
	for _, l := range w.behind() {
		all = append(all, action{l.name + " gets a change", l.next, l.name})
	}
	for _, q := range w.queues() {
		for _, key := range q.keys() {
			all = append(all, action{q.name + " works on " + key.Name, func() { q.work(key) }, q.name})
		}
	}
	if w.manager.acts() {
		for _, pod := range w.manager.waiting() {
			all = append(all, w.manager.placements(pod)...)
		}
	}
	for _, k := range w.targets {
		all = append(all, k.actions(false)...)
	}
	return slices.Concat(all, w.jobs(), w.listsOfThePast())
}

func (w *world) do(a action) {
	w.trace = append(w.trace, a.label)
	w.notice(a.label)
	time.Sleep(time.Nanosecond) //nolint:forbidigo // The bubble's time. No two timers end at the same instant.
	a.do()
	w.rest()
	for _, p := range w.former {
		p.expire()
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.noticeSetBacks(d)
	w.sleep(d)
	w.rest()
}

func (*network) sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // The bubble's time.
}

// end ends all goroutines.
func (w *world) end() {
	for _, p := range slices.Concat([]*process{w.manager.process}, w.managers, w.former) {
		p.crash(context.Canceled)
	}
	synctest.Wait()
}
