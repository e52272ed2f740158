package chaperons

import (
	"context"
	"fmt"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// namespace is a namespace that is watched.
type namespace struct {
	cache    cache.Cache
	informer cache.Informer
	patience *patience
	end      context.CancelFunc
	used     time.Time // guarded by Cache.mu
}

// start watches a namespace. It is called under c.mu.
func (c *Cache) start(name string) (*namespace, error) {
	n := &namespace{patience: newPatience(c.clock)}
	var err error
	wrap := func(lw toolscache.ListerWatcher) toolscache.ListerWatcher {
		return n.patience.wrap(lw, func(ctx context.Context) bool { return c.nothingIn(ctx, name) })
	}
	if n.cache, err = c.make(name, wrap); err != nil {
		return nil, err
	}
	n.informer, err = n.cache.GetInformer(c.life, &v1alpha1.PodChaperon{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, err
	}
	for r := range c.handlers {
		if err := r.add(n); err != nil {
			return nil, err
		}
	}
	var life context.Context
	life, n.end = context.WithCancel(c.life)
	go func() {
		if err := n.cache.Start(life); err != nil {
			log.FromContext(life).Error(err, "Watching PodChaperons", "namespace", name)
		}
	}()
	return n, nil
}

// wait returns when the namespace is listed, or with the reason why the target refuses to list it. The error is
// another one: nobody knows.
func (n *namespace) wait(ctx context.Context) (refused, err error) {
	listed := n.informer.HasSyncedChecker().Done()
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	for {
		changed, refused := n.patience.refusal()
		select {
		case <-listed:
			return nil, nil
		default:
		}
		if refused != nil {
			return refused, nil
		}
		select {
		case <-listed:
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("they are not listed yet: %w", context.Cause(ctx))
		}
	}
}

// isEmpty says whether no PodChaperon was seen that may still exist.
func (n *namespace) isEmpty(ctx context.Context) bool {
	if !n.informer.HasSynced() {
		_, refused := n.patience.refusal()
		return refused != nil
	}
	list := &v1alpha1.PodChaperonList{}
	err := n.cache.List(ctx, list, client.Limit(1), client.UnsafeDisableDeepCopy)
	return err == nil && len(list.Items) == 0
}
