package target

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// finding is the result of a connection. The zero finding means that there is no result yet.
type finding struct {
	condition metav1.Condition
	version   string
	// warned is the address of a Target that the next version refuses, or empty. labels are those of the target's nodes
	// that a Target's virtual node then loses, as lines.
	warned wire.AddressError
	labels string
	// epoch is to be remembered, if it is not 0, with epochOf.
	epoch   int64
	epochOf string
	// awake is the condition Awake, or empty if the target has no Lease for it, unless it is unknown.
	awake        metav1.Condition
	awakeUnknown bool
	// responsive is the condition Responsive, or empty as long as it is not known.
	responsive metav1.Condition
	// clusterID is that of the cluster that was connected last.
	clusterID string
	// fencing is what is known of TargetStatus.Fences.
	fencing fencing
}

// leaveLeasesWithin is how long a manager that stops tries to leave its Leases to the next leader.
const leaveLeasesWithin = 10 * time.Second

// connections holds one loop per target. It is safe for concurrent use. None of its methods waits for a target.
type connections struct {
	options Options
	changed func(target types.NamespacedName)

	running sync.WaitGroup // the loops

	mu    sync.Mutex // guards the fields below
	loops map[types.NamespacedName]*loop
	// unread has the targets that were connected by an earlier leader, and whose Secret is not read yet.
	unread map[types.NamespacedName]struct{}
}

func newConnections(options Options, changed func(types.NamespacedName)) *connections {
	return &connections{
		options: options, changed: changed,
		loops: map[types.NamespacedName]*loop{}, unread: map[types.NamespacedName]struct{}{},
	}
}

// set sets the target's connection and policy. At the end of ctx the connection ends, and all objects in the target
// stay.
func (c *connections) set(ctx context.Context, target types.NamespacedName, w want, policy *v1alpha1.PlacementPolicy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unread, target)
	l, ok := c.loops[target]
	if ok {
		l.set(w)
		l.setPolicy(policy)
		return
	}
	l = newLoop(c, target, w, policy)
	c.loops[target] = l
	c.running.Go(func() { l.run(ctx) })
}

// Start returns after the end of ctx, once all loops have left their Leases to the next leader. It runs on the leader.
func (c *connections) Start(ctx context.Context) error {
	holds := c.options.Holds
	if holds == nil {
		return nil
	}
	holds.Lead()
	<-ctx.Done()
	err := holds.Stop(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { c.running.Wait(); close(ended) }()
	timer := c.options.Clock.NewTimer(leaveLeasesWithin)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C():
	}
	return err
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

// await notes that a target exists that cannot be connected before its Secret is read.
func (c *connections) await(target types.NamespacedName, status v1alpha1.TargetStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loops[target] == nil && status.ClusterID != "" {
		c.unread[target] = struct{}{}
	}
}

// remove makes the target's loop leave the target and end. It reports a target that is not connected yet.
func (c *connections) remove(ctx context.Context, target types.NamespacedName) {
	c.mu.Lock()
	l, ok := c.loops[target]
	_, unread := c.unread[target]
	delete(c.unread, target)
	c.mu.Unlock()
	switch {
	case ok:
		l.set(want{fingerprint: "gone", gone: true})
	case unread:
		ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("target", targetkind.Name(target)))
		c.reportRemains(ctx, target, unknown, errNoCredentials)
		fallthrough
	default:
		c.options.Tokens.Forget(target)
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
	c.options.Tokens.Forget(l.key)
	if c.options.Holds != nil {
		c.options.Holds.Forget(l.key)
	}
	return true
}
