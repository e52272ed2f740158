package main

import (
	"fmt"
	"slices"
	"time"
)

// figures are the results of one simulation.
type figures struct {
	pods, placed int
	// median, p99 and longest are the times from the creation of a pod to its binding. Pods that were not placed count
	// with the time until the end.
	median, p99, longest time.Duration
	// retries is the mean number of PodChaperons of a pod beyond the first.
	retries float64
	// conditions is how often the source's scheduler wrote a condition of a pod, for each pod.
	conditions float64
	// imbalance is the standard deviation of the shares of CPUs in use, when the last pods have come.
	imbalance float64
	// waited is how many pods waited too long although a target had room, and no target had their delegates. held is
	// the same for those whose delegates another target held back.
	waited, held int
	// starved is how many pods were overtaken by later ones that ask for the same, for too long.
	starved int
	// preempted is how many pods ended for more important ones. The other figures are of those that replaced them.
	preempted int
	// important is the longest time of a pod that is more important than others.
	important time.Duration
	// partGangs is how many gangs were placed in part.
	partGangs int
}

// figures sums up what became of the pods.
func (ob *observer) figures() figures {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	var f figures
	var waits []time.Duration
	attempts, tried := 0, 0
	inGang, placedInGang := map[string]int{}, map[string]int{}
	for _, o := range ob.byName {
		if o.preempted {
			f.preempted++
			continue
		}
		f.pods++
		end := o.placed
		if end.IsZero() {
			end = time.Now()
		} else {
			f.placed++
			placedInGang[o.gang]++
		}
		inGang[o.gang]++
		waits = append(waits, end.Sub(o.created))
		if o.pod.Spec.PriorityClassName == important {
			f.important = max(f.important, end.Sub(o.created))
		}
		if o.attempts > 0 {
			attempts, tried = attempts+o.attempts, tried+1
		}
		f.waited, f.held = f.waited+count(o.waited), f.held+count(o.held)
		f.starved += count(end.Sub(o.created) >= starving && ob.overtaken(o, end))
	}
	slices.Sort(waits)
	f.median, f.p99, f.longest = waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1]
	if tried > 0 {
		f.retries = float64(attempts-tried) / float64(tried)
	}
	for gang, n := range inGang {
		f.partGangs += count(gang != "" && placedInGang[gang] > 0 && placedInGang[gang] < n)
	}
	return f
}

// overtaken says whether pods with the same requests and constraints that came much later were placed earlier. A pod
// that replaces a preempted one is no later than that one was. It must be called with the lock held.
func (ob *observer) overtaken(o *observed, end time.Time) bool {
	for _, other := range ob.byName {
		later := min(other.created.Sub(o.created), other.at-o.at)
		if other.size() == o.size() && !other.placed.IsZero() && other.placed.Before(end) && later >= tooLong {
			return true
		}
	}
	return false
}

// size returns what a pod asks for, as text, if it asks for nothing but CPUs, memory and a priority.
func (a *arrival) size() string {
	spec := &a.pod.Spec
	if len(spec.NodeSelector) > 0 || len(spec.Tolerations) > 0 || spec.Affinity != nil || a.gang != "" {
		return a.kind
	}
	requests := spec.Containers[0].Resources.Requests
	return requests.Cpu().String() + " " + requests.Memory().String() + " " + spec.PriorityClassName
}

// problems says what must not be.
func (r *result) problems() []string {
	var problems []string
	if f := r.fleet; f.waited > 0 || f.held > 0 {
		problems = append(problems, fmt.Sprintf("for more than %s, %d pods waited, and %d were held elsewhere, "+
			"although a target had room", tooLong, f.waited, f.held))
	}
	if r.fleet.starved > 0 {
		problems = append(problems, fmt.Sprintf("%d pods starved", r.fleet.starved))
	}
	if r.fleet.important > max(2*r.flat.important, tooLong) {
		problems = append(problems, fmt.Sprintf("a more important pod waited for %s, and for %s at most in a flat "+
			"cluster of the same nodes", short(r.fleet.important), short(r.flat.important)))
	}
	if r.fleet.preempted > 2*r.flat.preempted {
		problems = append(problems, fmt.Sprintf("%d pods were preempted, and %d in a flat cluster of the same nodes",
			r.fleet.preempted, r.flat.preempted))
	}
	tolerated := r.fleet.pods / 20
	if r.flat.preempted > 0 { // Which pods end, and so which find other room, differs from run to run.
		tolerated *= 2
	}
	if missing := r.flat.placed - r.fleet.placed; !r.limited && missing > tolerated {
		problems = append(problems, fmt.Sprintf("%d of %d pods were placed, and %d in a flat cluster of the same nodes",
			r.fleet.placed, r.fleet.pods, r.flat.placed))
	}
	return problems
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
