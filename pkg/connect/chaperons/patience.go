package chaperons

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// After a refusal, a namespace is asked for again after firstPause, then after twice as long, up to lastPause.
const (
	firstPause = time.Second
	lastPause  = 5 * time.Minute
	jitter     = 0.2
)

// patience makes a reflector wait after the target has refused its request.
type patience struct {
	clock clock.Clock
	again chan struct{} // holds a token if the pause is to end

	mu      sync.Mutex // guards the fields below
	refused error      // the answer to the last request if it was a refusal
	pause   time.Duration
	changed chan struct{} // closed when refused changes
}

func newPatience(clock clock.Clock) *patience {
	return &patience{clock: clock, again: make(chan struct{}, 1), changed: make(chan struct{})}
}

// refusal returns the last answer if it was a refusal, and a channel that is closed when this changes.
func (p *patience) refusal() (changed <-chan struct{}, refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed, p.refused
}

// end ends the pause after a refusal, and the next pause is the shortest.
func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refused == nil {
		return
	}
	p.pause = 0
	select {
	case p.again <- struct{}{}:
	default:
	}
}

// ask makes a request, after the pause if the last one was refused.
func (p *patience) ask(ctx context.Context, request func() error) error {
	p.mu.Lock()
	refused, pause := p.refused, p.pause
	p.mu.Unlock()
	if refused != nil {
		p.rest(ctx, wait.Jitter(pause, jitter))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := request()
	p.note(err)
	return err
}

// rest waits for the end of the pause.
func (p *patience) rest(ctx context.Context, pause time.Duration) {
	timer := p.clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.again:
	case <-timer.C():
	}
}

func (p *patience) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.refused
	switch {
	case apierrors.IsForbidden(err):
		p.refused, p.pause = err, min(max(2*p.pause, firstPause), lastPause)
	case err == nil:
		p.refused, p.pause = nil, 0
	}
	if (was == nil) != (p.refused == nil) {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// wrap returns a ListerWatcher that asks patiently. If a list is refused, and nothing returns true, the list is empty.
// It has no version, so no watch can begin there: the reflector lists again.
func (p *patience) wrap(lw toolscache.ListerWatcher, nothing func(context.Context) bool) toolscache.ListerWatcher {
	from := toolscache.ToListerWatcherWithContext(lw)
	return &listerWatcher{toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (list runtime.Object, err error) {
			err = p.ask(ctx, func() error { list, err = from.ListWithContext(ctx, o); return err })
			if apierrors.IsForbidden(err) && nothing(ctx) {
				return &v1alpha1.PodChaperonList{}, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (w watch.Interface, err error) {
			if _, refused := p.refusal(); refused != nil && o.ResourceVersion == "" && o.SendInitialEvents == nil {
				return nil, refused
			}
			err = p.ask(ctx, func() error { w, err = from.WatchWithContext(ctx, o); return err })
			return w, err
		},
	}, watchlist.DoesClientNotSupportWatchListSemantics(lw)}
}

type listerWatcher struct {
	toolscache.ListWatch

	listFirst bool
}

// IsWatchListSemanticsUnSupported says what the client supports.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return l.listFirst }
