package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
)

// coverage counts the runs that came to a situation.
type coverage struct {
	mu     sync.Mutex // guards the fields below
	runs   int
	counts map[string]int
}

func (c *coverage) add(reached map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	for situation, yes := range reached {
		c.counts[situation] += 0
		if yes {
			c.counts[situation]++
		}
	}
}

// manyRuns come to every situation.
const manyRuns = 5000

// report prints the share of runs that came to each situation. Many runs fail if none came to one: then they show
// nothing about it.
func (c *coverage) report(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, situation := range slices.Sorted(maps.Keys(c.counts)) {
		if c.counts[situation] == 0 && c.runs >= manyRuns {
			t.Errorf("none of %d runs came to this: %s", c.runs, situation)
		}
		lines = append(lines, fmt.Sprintf("%6.2f %% %s", 100*float64(c.counts[situation])/float64(c.runs), situation))
	}
	t.Logf("of %d runs:\n%s", c.runs, strings.Join(lines, "\n"))
}

const oldLists = "a manager begins with old lists"

// notice notes the situations in which a step is done.
func (w *world) notice(label string) {
	ending, withdrawn := w.underDeletion()
	note := func(situation string, yes bool) { w.reached[situation] = w.reached[situation] || yes }
	has := func(text string) bool { return strings.Contains(label, text) }
	crashes, lists, goes := has("crashes"), has("misses changes"), has("carried out, and its answer is lost")
	note("a manager crashes", crashes)
	note("a manager crashes during a withdrawal", crashes && withdrawn)
	note("a manager crashes while a delegate is to end", crashes && ending)
	note("a target is lost", has("is lost"))
	note("a target is lost during a withdrawal", has(" is lost") && withdrawn && !goes)
	note("a target is engaged anew", has("engaged anew"))
	note(oldLists, has("old list"))
	note("a source lists while API servers lag", has("API servers lag") || has("API server lags"))
	note("a target is set back", has("is set back by"))
	note("a target that was set back is accepted", has("accepts"))
	note("a process freezes", has("freezes"))
	note("a frozen process goes on beside its successor", has("the former"))
	note("a cache lists anew", lists)
	note("a cache lists anew while a delegate is to end", lists && ending)
	note("a request arrives late", has("arrives late"))
	note("a request to create arrives late", has("arrives late") && has(": create"))
	note("the answer of a creation is lost", goes && has(": create"))
	note("the answer of a binding is lost", goes && has(": bind"))
	note("the answer of a request to end is lost", goes && has(": patch PodChaperon"))
	note("a pod is withdrawn", withdrawn)
	note("a delegate has finished", has(": success of") || has(": failure of"))
	note("a user deletes an unbound proxy", len(w.facts.unbound) > 0)
	note("a user deletes a delegate or a PodChaperon", has("a user deletes") && !has("in source"))
	note("a delegate is elsewhere, in a target that was lost", len(w.facts.away) > 0)
	note("a delegate is made again", len(w.facts.delegates) > w.made(kindChaperon))
	note("a pod is placed again", w.made(kindChaperon) > w.source.total(kindPod))
	note("a pod moves", w.moved.Load())
	note("a pod leaves a target that takes no pods", w.left.Load())
	note("a target's clocks are an hour ahead", has(aheadByAnHour))
	note("a target's clocks are an hour behind", has(behindByAnHour))
	note("twins", has("the other of twins"))
}

// underDeletion says whether a delegate is to end, and whether it is that of a proxy that is not bound.
func (w *world) underDeletion() (is, withdrawn bool) {
	unbound := map[string]bool{}
	for _, proxy := range list[*corev1.Pod](w.source) {
		unbound[string(proxy.UID)] = proxy.Spec.NodeName == "" && proxy.DeletionTimestamp == nil
	}
	for _, k := range w.targets {
		for _, c := range list[*v1alpha1.PodChaperon](k.cluster) {
			if ending.Begun(c) {
				is = true
				withdrawn = withdrawn || unbound[string(parentOf(c))]
			}
		}
	}
	return is, withdrawn
}

// made returns how many objects of a kind the targets have had.
func (w *world) made(kind string) int {
	n := 0
	for _, k := range w.targets {
		n += k.total(kind)
	}
	return n
}

// total returns how many objects of a kind were created.
func (c *cluster) total(kind string) int { return c.created[kind] }
