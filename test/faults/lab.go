package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// lab holds the clusters, the namespace in which pods run, and what the checker knows of them.
type lab struct {
	clusters  map[string]*cluster
	namespace string
	history   *checker.History
	// unwatch ends the checker's watch of a cluster.
	unwatch map[string]context.CancelFunc
	// setBack says that this round set a cluster back, so that a target may say so.
	setBack atomic.Bool
	// done has the names of the steps that were carried out, and drawn how often each was to be.
	done  map[string]bool
	drawn map[string]int
	say   func(format string, args ...any)
}

// setUp makes the namespace and the workload in it, and starts the checker.
func setUp(ctx context.Context, say func(string, ...any)) (*lab, error) {
	l := &lab{
		clusters: map[string]*cluster{}, namespace: "faults-" + rand.String(5),
		history: checker.NewHistory(time.Now), unwatch: map[string]context.CancelFunc{}, say: say,
		done: map[string]bool{}, drawn: map[string]int{},
	}
	for _, name := range []string{source, target} {
		c, err := open(name)
		if err != nil {
			return nil, err
		}
		l.clusters[name] = c
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
		if name == source {
			namespace.Labels = map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}
		}
		if err := c.Create(ctx, namespace); err != nil {
			return nil, fmt.Errorf("making a namespace in %s: %w", name, err)
		}
		if err := l.watch(ctx, name); err != nil {
			return nil, err
		}
	}
	l.setBack.Store(true) // An earlier run may have ended amid that.
	go l.history.Look(ctx, l.namespace)
	return l, l.createWorkload(ctx)
}

// watch has the checker watch a cluster, from its present state.
func (l *lab) watch(ctx context.Context, name string) error {
	end, err := l.history.Watch(ctx, l.namespace, name, name == source, l.clusters[name].config)
	l.unwatch[name] = end
	return err
}

// tearDown deletes the namespace in both clusters, and waits until it is gone: everything in it could be deleted.
func (l *lab) tearDown(ctx context.Context) error {
	for _, c := range l.clusters {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
		if err := c.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the namespace of %s: %w", c.name, err)
		}
	}
	return until(ctx, func(ctx context.Context) error {
		for _, c := range l.clusters {
			err := c.Get(ctx, client.ObjectKey{Name: l.namespace}, &corev1.Namespace{})
			if err == nil {
				return fmt.Errorf("%s still has the namespace", c.name)
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

const (
	// restWithin is the time in which everything must be at rest after the last repair, and nothing be left at the end.
	restWithin = 3 * time.Minute
	pollEvery  = 200 * time.Millisecond
)

// until calls check until it returns nil. After restWithin, it returns the last error of check.
func until(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, restWithin)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	last := errors.New("nothing was asked yet")
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", restWithin, last)
		case <-ticker.C:
		}
	}
}

// late notes that something did not happen in time. If somebody ended the run, there was no time.
func (l *lab) late(ctx context.Context, format string, args ...any) {
	if ctx.Err() == nil {
		l.history.Violate(checker.Converges, format, args...)
	}
}

// wait waits for a duration, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
