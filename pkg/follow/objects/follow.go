package objects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/bounds"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// writesPerPod are those that go on at once.
	writesPerPod = 8
)

// Options are what a Follower works with. All are required.
type Options struct {
	// Config reaches the source cluster's API server.
	Config *rest.Config
	// Source is who this cluster is to targets.
	Source translate.Source
	// Appeared is called when an object appears that pods of the namespace may have been waiting for. It must return
	// soon.
	Appeared func(namespace string, ref needs.Ref)
	// Clock tells when copies were last said to be needed.
	Clock clock.WithDelayedExecution
	// Recorder records events about originals, in the source.
	Recorder events.EventRecorder
	// Logger is for what is not the writing of one copy.
	Logger logr.Logger
}

// Follower brings what pods refer to into targets, and keeps it there as it is in the source. It observes an
// engage.Registry (Observe it before the first target is engaged), and is to run on the leader only. It is safe for
// concurrent use.
type Follower struct {
	options Options

	contents dynamic.Interface
	users    *users
	watches  *watches
	// ensure starts the watch of a collection, if there is none, and observePods the counting of proxies, once. We lead
	// by then: a replica that does not lead need not watch pods.
	ensure      func(collection) *collectionWatch
	observePods func() error

	links engage.PerTarget[*link]

	holding sync.Mutex // guards held
	held    map[holder]usage
}

var _ engage.Observer = &Follower{}

// New makes a Follower, of which nothing may be asked before Register.
func New(options Options) (*Follower, error) {
	config := rest.CopyConfig(options.Config)
	config.QPS = -1 // the API server's priority and fairness rules
	contents, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of contents: %w", err)
	}
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	f := &Follower{
		options:  options,
		contents: contents,
		users:    newUsers(),
		held:     map[holder]usage{},
	}
	f.watches = &watches{
		client: meta, clock: options.Clock, users: f.users, changed: f.objectChanged, trouble: f.logTrouble,
		all: map[collection]*collectionWatch{}, stopping: map[collection]bool{},
	}
	return f, nil
}

// Register has the Follower use the manager's cache of pods, cut down by package podcache. What it starts ends with
// ctx.
func (f *Follower) Register(ctx context.Context, mgr manager.Manager) {
	f.ensure = func(c collection) *collectionWatch { return f.watches.ensure(ctx, c) }
	f.observePods = engage.Once(func() error {
		informer, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{})
		if err != nil {
			return fmt.Errorf("getting the informer of pods: %w", err)
		}
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { f.podChanged(nil, o) },
			UpdateFunc: f.podChanged,
			DeleteFunc: func(o any) { f.podChanged(o, nil) },
		})
		if err != nil {
			return fmt.Errorf("handling events of pods: %w", err)
		}
		if !toolscache.WaitFor(ctx, "", handler.HasSyncedChecker()) {
			return fmt.Errorf("waiting for pods: %w", ctx.Err())
		}
		return nil
	})
}

// Missing returns a *needs.MissingError if the source lacks what the pod cannot start without, as far as is known:
// Ensure finds out. It reads memory only. When that changes, Options.Appeared is called.
func (f *Follower) Missing(pod *corev1.Pod) error {
	return missing(pod.Namespace, needs.Followed(pod), f.watches.lacks)
}

// missing returns a *needs.MissingError for what is lacking and not optional. An account may be the target's own.
func missing(namespace string, followed []needs.Need, lacks func(objectKey) bool) error {
	var refs []needs.Ref
	for _, need := range followed {
		if !need.Optional && need.Resource != needs.ServiceAccounts && lacks(objectKey{namespace, need.Ref}) {
			refs = append(refs, need.Ref)
		}
	}
	if refs == nil {
		return nil
	}
	return &needs.MissingError{Namespace: namespace, Refs: refs}
}

// Ensure returns nil once what the pod refers to is in the target as it is in the source, a *needs.MissingError if the
// source lacks it, and a *needs.RefusedError if the target does not take it. After any other error it may be called
// again.
func (f *Follower) Ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	followed := needs.Followed(pod)
	if len(followed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bounds.EnsureObjects)
	defer cancel()
	if err := f.findMissing(ctx, pod.Namespace, followed); err != nil {
		return err
	}
	if target.Itself {
		return nil
	}
	l, ok := f.links.Get(target)
	if !ok {
		return fmt.Errorf("target %q is not connected any more", target.Key)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writesPerPod)
	for _, need := range followed {
		o := objectKey{pod.Namespace, need.Ref}
		if _, exists := f.watches.version(o); !exists && need.Resource == needs.ServiceAccounts {
			continue
		}
		group.Go(func() error { // Of what is not known we ask the source: it may have been made just now.
			err := l.ensure(ctx, o)
			switch {
			case !errors.Is(err, errGone):
				return err
			case need.Optional || need.Resource == needs.ServiceAccounts:
				return nil
			default:
				return &needs.MissingError{Namespace: pod.Namespace, Refs: []needs.Ref{need.Ref}}
			}
		})
	}
	return group.Wait()
}

// look finds out which objects there are. A watch may be a moment behind, so what a pod cannot start without is asked
// for.
func (f *Follower) findMissing(ctx context.Context, namespace string, followed []needs.Need) error {
	var watches []*collectionWatch
	for _, need := range followed {
		c := collection{namespace, need.Resource}
		w := f.ensure(c)
		if slices.Contains(watches, w) {
			continue
		}
		watches = append(watches, w)
		if !f.users.isReferredTo(c) { // The pod may be gone, and then nobody else would end the watch.
			f.watches.stopLater(c)
		}
	}
	for _, w := range watches {
		if err := w.waitUntilKnown(ctx); err != nil {
			return err
		}
	}
	return missing(namespace, followed, func(o objectKey) bool {
		if !f.watches.lacks(o) {
			return false
		}
		_, err := f.readOriginal(ctx, o)
		return errors.Is(err, errGone)
	})
}

// podChanged counts what a proxy of the cache referred to and refers to.
func (f *Follower) podChanged(was, is any) {
	old, _ := watch.Unwrap[*corev1.Pod](was)
	pod, _ := watch.Unwrap[*corev1.Pod](is)
	before, after := usageOf(old), usageOf(pod)
	if before.equal(after) {
		return
	}
	f.users.replaceUsage(before, after)
	if after.node != "" {
		for _, o := range after.objects() {
			f.ensure(o.collection())
			f.compare(o) // It may have changed since it was brought.
		}
	}
	f.forgetUnneeded(before)
}

// forget what nobody needs any more.
func (f *Follower) forgetUnneeded(c usage) {
	for _, o := range c.objects() {
		for _, l := range f.links.All() {
			l.forgetCopy(o)
		}
		if !f.users.isReferredTo(o.collection()) {
			f.watches.stopLater(o.collection())
		}
	}
}

func (f *Follower) objectChanged(o objectKey, appeared bool) {
	f.compare(o)
	if appeared && o.Resource != needs.ServiceAccounts {
		f.options.Appeared(o.namespace, o.Ref)
	}
}

// compare has copies written that are needed and not as the object is.
func (f *Follower) compare(o objectKey) {
	for _, l := range f.links.All() {
		if l.outdated(o) {
			l.queue.Add(o)
		}
	}
}

func (f *Follower) logTrouble(c collection, err error) {
	f.options.Logger.Error(
		err,
		"What pods refer to is not known; trying again",
		"resource",
		c.resource,
		"namespace",
		c.namespace,
	)
}
