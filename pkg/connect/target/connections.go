package target

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// finding is the result of a connection. The zero finding means that there is no result yet.
type finding struct {
	condition metav1.Condition
	// warning is the condition Restricted, or empty.
	warning metav1.Condition
	version string
	// clusterID is that of the cluster that was connected last.
	clusterID string
}

// connections holds one loop per target. It is safe for concurrent use. None of its methods waits for a target.
type connections struct {
	options Options
	changed func(target types.NamespacedName)

	mu    sync.Mutex // guards loops
	loops map[types.NamespacedName]*loop
}

func newConnections(options Options, changed func(types.NamespacedName)) *connections {
	return &connections{options: options, changed: changed, loops: map[types.NamespacedName]*loop{}}
}

// set sets the target's connection and policy. At the end of ctx the connection ends, and all objects in the target
// stay.
func (c *connections) set(ctx context.Context, target types.NamespacedName, w want, policy *v1alpha1.PlacementPolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.loops[target]
	if ok {
		l.set(w)
		l.setPolicy(policy)
		return
	}
	l = newLoop(c, target, w, policy)
	c.loops[target] = l
	go l.run(ctx)
}

// goOn returns w, or the last want of the target if its credentials have worked and the Secret of w cannot be used.
func (c *connections) goOn(target types.NamespacedName, w want) want {
	c.mu.Lock()
	l, ok := c.loops[target]
	c.mu.Unlock()
	if !ok {
		return w
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.goOn(l.want, l.worked == l.want.fingerprint)
}

// remove makes the target's loop leave the target and end.
func (c *connections) remove(target types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.loops[target]; ok {
		l.set(want{fingerprint: "gone", gone: true})
	}
}

// findingAbout returns the finding about the connection that w asks for.
func (c *connections) findingAbout(target types.NamespacedName, w want) finding {
	c.mu.Lock()
	l, ok := c.loops[target]
	c.mu.Unlock()
	if !ok {
		return finding{}
	}
	return l.findingAbout(w)
}

// retire forgets a loop that has left its target, unless the target was created again. It returns whether it did.
func (c *connections) retire(l *loop) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.want.gone {
		return false
	}
	delete(c.loops, l.key)
	return true
}
