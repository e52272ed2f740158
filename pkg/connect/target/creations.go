package target

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// carriedOutWithin is how long after this process has given a request up the target may still carry it out. The Lease
// of a target relies on the same: within HoldEnds, the kernel has sent the request or given it up.
const carriedOutWithin = timeouts.HoldDuration

// errEnded says that nothing is created in a target any more.
var errEnded = errors.New("this source is not connected to the target any more")

// creations knows the requests to create PodChaperons in the target of a (Cluster)Target, those of earlier engagements
// included. Whoever leaves the target waits for them. It is safe for concurrent use.
type creations struct {
	clock clock.Clock
	// ended holds a token while a request may have ended since somebody looked.
	ended chan struct{}

	mu         sync.Mutex // guards the fields below, and creator.stopped
	underWay   int
	unanswered int       // since the last call of checked
	until      time.Time // when none of the unanswered ones can be carried out any more
	in         sets.Set[string]
}

func newCreations(c clock.Clock) *creations {
	return &creations{clock: c, ended: make(chan struct{}, 1), in: sets.New[string]()}
}

// begin notes a request, unless its engagement has ended.
func (c *creations) begin(by *creator, namespace string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if by.stopped {
		return errEnded
	}
	c.underWay++
	c.in.Insert(namespace)
	return nil
}

// end notes the answer of a request.
func (c *creations) end(err error) {
	c.mu.Lock()
	c.underWay--
	if apierror.Of(err, apierror.Create).Unknown() {
		c.unanswered++
		c.until = c.clock.Now().Add(carriedOutWithin)
	}
	c.mu.Unlock()
	select {
	case c.ended <- struct{}{}:
	default:
	}
}

// pending returns how many PodChaperons may be created although nobody knows of them, and until when the target may
// carry out the requests that have ended.
func (c *creations) pending() (doubtful, underWay int, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underWay + c.unanswered, c.underWay, c.until
}

// clear says whether no request of the past can create a PodChaperon any more.
func (c *creations) clear() bool {
	doubtful, underWay, until := c.pending()
	return doubtful == 0 || underWay == 0 && !c.clock.Now().Before(until)
}

// wait returns when no request of the past can create a PodChaperon any more. With an error it returns how many may.
func (c *creations) wait(ctx context.Context) (doubtful int, err error) {
	for {
		doubtful, underWay, until := c.pending()
		left := carriedOutWithin // Each request has a deadline.
		if underWay == 0 {
			left = until.Sub(c.clock.Now())
		}
		if doubtful == 0 || left <= 0 {
			return doubtful, nil
		}
		timer := c.clock.NewTimer(left)
		select {
		case <-c.ended:
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return doubtful, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// checked notes that somebody has looked for what the requests created, after wait.
func (c *creations) checked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unanswered = 0
}

// namespaces returns those in which PodChaperons were to be created.
func (c *creations) namespaces() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return sets.List(c.in)
}

// creator is the client of one engagement. It tells creations about PodChaperons.
type creator struct {
	client.Client

	all     *creations
	stopped bool
}

// Create creates an object. After stop, it creates no PodChaperon.
func (c *creator) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if _, ok := o.(*v1alpha1.PodChaperon); !ok {
		return c.Client.Create(ctx, o, options...)
	}
	if err := c.all.begin(c, o.GetNamespace()); err != nil {
		return err
	}
	err := c.Client.Create(ctx, o, options...)
	c.all.end(err)
	return err
}

// stop makes all creations of PodChaperons fail from now on. Those that are under way go on.
func (c *creator) stop() {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.stopped = true
}
