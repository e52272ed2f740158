package simulation

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	objectwatch "github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// anyTime is the version with which a reflector first lists.
const anyTime = "0"

// old is how many changes an old list lacks. An API server that has a cache may answer with one.
const old = 3

// longestLag is how long the source lags at most. A target that is cut off is lost by then.
const longestLag = 100 * time.Second

func (w *world) times() []action {
	lag := w.manager.lag()
	var all []action
	for _, d := range []time.Duration{
		time.Second, 6 * time.Second, 11 * time.Second, 31 * time.Second, 46 * time.Second, 125 * time.Second,
	} {
		if lag == 0 || lag+d <= longestLag {
			all = append(all, action{label: d.String() + " pass", do: func() { w.pass(d) }})
		}
	}
	return all
}

// ofSource are the source's managers that end and begin.
func (w *world) ofSource() []action {
	switch p := w.manager.process; {
	case !p.alive():
		return []action{{label: "the source's manager starts", do: func() { w.restartSource(0) }}}
	case p.frozen:
		return nil
	default:
		return []action{{label: "the source's manager crashes", do: func() { p.crash(errCrash) }}}
	}
}

func (w *world) restartSource(ago int) {
	w.pass(leaseDuration)
	w.manager = w.startSource(ago)
}

// ofTargets are the targets' managers that end and begin.
func (w *world) ofTargets() []action {
	var all []action
	for i, k := range w.targets {
		switch p := w.managers[i]; {
		case !p.alive():
			all = append(all, action{label: k.name + "'s manager starts", do: func() { w.restartTarget(i, 0, 0) }})
		case !p.frozen:
			all = append(all, action{label: k.name + "'s manager crashes", do: func() { p.crash(errCrash) }})
		}
	}
	return all
}

func (w *world) restartTarget(i, chaperonsAgo, podsAgo int) {
	w.pass(leaseDuration)
	w.managers[i] = w.startTarget(w.targets[i], chaperonsAgo, podsAgo)
}

// clocks are clocks of targets that are wrong from the beginning of a run.
func (w *world) clocks() []action {
	if w.source.total(kindPod) > 0 {
		return nil
	}
	var all []action
	for i, k := range w.targets {
		all = append(all, wrongClocks(k.cluster, k.name, func() {
			w.managers[i].crash(errCrash)
			w.managers[i] = w.startTarget(k, 0, 0)
		})...)
	}
	return all
}

// wrongClocks are those that a target may have. restart starts its manager anew, which has seen nothing so far.
func wrongClocks(c *cluster, name string, restart func()) []action {
	if c.ahead != 0 {
		return nil
	}
	to := func(ahead time.Duration) func() { return func() { c.ahead = ahead; restart() } }
	return []action{
		{label: name + aheadByAnHour, do: to(time.Hour)},
		{label: name + behindByAnHour, do: to(-time.Hour)},
	}
}

const (
	aheadByAnHour  = "'s clocks are an hour ahead"
	behindByAnHour = "'s clocks are an hour behind"
)

// olds are processes and caches that begin while the caches of API servers lag.
func (w *world) olds() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	if !w.manager.alive() {
		add("the source's manager starts, and API servers lag", func() { w.restartSource(old) })
	}
	for _, k := range w.targets {
		if w.canEngage(k) {
			add(k.name+" is engaged anew, and its API server lags", func() { w.manager.engage(k, old) })
		}
	}
	for i, k := range w.targets {
		chaperons, pods := len(k.logs[kindChaperon]) >= old, len(k.logs[kindPod]) >= old
		if !w.managers[i].alive() && chaperons {
			add(k.name+"'s manager starts, with an old list of PodChaperons", func() { w.restartTarget(i, old, 0) })
		}
		if !w.managers[i].alive() && pods {
			add(k.name+"'s manager starts, with an old list of pods", func() { w.restartTarget(i, 0, old) })
		}
		if !w.managers[i].alive() && chaperons && pods {
			add(k.name+"'s manager starts, with old lists", func() { w.restartTarget(i, old, old) })
		}
	}
	return all
}

// unlessPresent returns how old the first list is of a cache that asks for the present as the product does.
func unlessPresent(ago int) int {
	options := metav1.ListOptions{ResourceVersion: anyTime}
	objectwatch.AskForThePresent(&options)
	if options.ResourceVersion != anyTime {
		return 0
	}
	return ago
}

// unlessOldLists returns how old the first list is of the source's cache of pods. It is not old if that of a target's
// manager was: that manager may write an old status.
func (w *world) unlessOldLists(ago int) int {
	if w.reached[oldLists] {
		return 0
	}
	return ago
}

// freezes are processes that freeze, others that take over, and the frozen ones that go on.
func (w *world) freezes() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	takeOver := func(p *process, start func()) {
		switch {
		case p.acts():
			add(p.name+" freezes", func() { p.frozen = true })
		case p.alive() && p.frozen:
			add(p.name+" goes on in time", func() { p.frozen = false })
			add("another one takes over from "+p.name, func() {
				w.pass(timeouts.LeaseDuration)
				w.former = append(w.former, p)
				w.abandonOld(p)
				start()
			})
		}
	}
	takeOver(w.manager.process, func() { w.manager = w.startSource(0) })
	for i, k := range w.targets {
		takeOver(w.managers[i], func() { w.managers[i] = w.startTarget(k, 0, 0) })
	}
	for i, p := range w.former {
		if p.alive() && p.frozen {
			add(fmt.Sprintf("the former %s (%d) goes on", p.name, i+1), func() { w.thaw(p) })
		}
	}
	return all
}

// lastSteps is how many steps a process does that was frozen, until it notices that another one leads.
const lastSteps = 6

// abandonOld ends the writes of a frozen source that were sent so long ago that they do not arrive.
func (w *world) abandonOld(p *process) {
	if p.of != w.source {
		return
	}
	for _, c := range w.underWay() {
		if c.by == p && c.verb != "get" && !c.served {
			c.served, c.result, c.err = true, nil, errFenced
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.network.late = slices.DeleteFunc(w.network.late, func(c *call) bool { return c.by == p })
}

// thaw lets a process go on that was frozen while another one took over. The fence ends its writes.
func (w *world) thaw(p *process) {
	p.frozen, p.left, p.fenced = false, lastSteps, true
	for _, c := range w.underWay() {
		if c.by == p && c.to != p.of && c.verb != "get" {
			w.abandon(c)
		}
	}
}

// outages are targets that are cut off and return.
func (w *world) outages() []action {
	var all []action
	for _, k := range w.targets {
		if k.cut {
			all = append(all, action{label: k.name + " returns", do: func() { k.cut = false }})
		} else {
			all = append(all, action{label: k.name + " is cut off", do: func() { k.cut = true }})
		}
		all = append(all, w.engagements(k)...)
	}
	return all
}

// rooms are targets that are full, or have room.
func (w *world) rooms() []action {
	var all []action
	for _, k := range w.targets {
		if k.full {
			all = append(all, action{label: k.name + " has room", do: func() { k.full = false }})
		} else {
			all = append(all, action{label: k.name + " is full", do: func() { k.full = true }})
		}
	}
	return all
}

// engagements are what package connect/target does.
func (w *world) engagements(k *kubernetes) []action {
	var all []action
	if e := w.manager.engaged[k]; w.manager.acts() && k.cut && e != nil && !e.target.Lost() {
		if e.target.Reachable() {
			all = append(all, action{label: k.name + " is out of reach", do: func() { w.manager.lapse(k) }})
		}
		all = append(all, action{label: k.name + " is lost", do: func() { w.manager.lose(k) }})
	}
	if w.canEngage(k) {
		all = append(all, action{label: k.name + " is engaged anew", do: func() { w.manager.engage(k, 0) }})
	}
	return all
}

func (w *world) canEngage(k *kubernetes) bool {
	e := w.manager.engaged[k]
	return w.manager.acts() && !k.cut && !k.unaccepted() && (e == nil || !e.target.Reachable())
}
