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

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// writesPerPod is the number of concurrent writes for a pod.
	writesPerPod = 8
)

// Options configures a Follower. All fields are required.
type Options struct {
	// Config reaches the source cluster's API server.
	Config *rest.Config
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Appeared is called when an object appears for which pods of the namespace may have waited. It must return soon.
	Appeared func(namespace string, ref needs.Ref)
	// Clock gives the time at which copies are noted as needed, and measures the time since the last event about one.
	Clock clock.WithDelayedExecution
	// Recorder records events about originals, in the source.
	Recorder events.EventRecorder
	// Logger is for messages about more than one copy.
	Logger logr.Logger
}

// Follower copies the objects that pods refer to into targets, and keeps the copies up to date. It observes an
// engage.Registry; Observe it before the first target is engaged. It must run on the leader only. It is safe for
// concurrent use.
type Follower struct {
	options Options

	contents   dynamic.Interface
	users      *users
	namespaces *enabledNamespaces
	watches    *watches
	// ensure starts the watch of a collection, unless it runs. observePods starts to count proxies, once. Both are
	// first called on the leader: other replicas need not watch pods.
	ensure      func(collection) *collectionWatch
	observePods func() error

	links engage.PerTarget[*link]

	othersMu sync.Mutex          // guards others
	others   map[otherUser]usage // of users that are not pods
}

var _ engage.Observer = &Follower{}

// New makes a Follower. Register must be called before any other method.
func New(options Options) (*Follower, error) {
	config := rest.CopyConfig(options.Config)
	config.QPS = -1 // The API server's priority and fairness limits requests.
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
		others:   map[otherUser]usage{},
	}
	f.watches = &watches{
		client: meta, clock: options.Clock, users: f.users, changed: f.objectChanged, trouble: f.logTrouble,
		all: map[collection]*collectionWatch{}, stopping: map[collection]bool{},
	}
	f.namespaces = newEnabledNamespaces(f.namespaceEnabled)
	return f, nil
}

// Register lets the Follower use the manager's cache of pods, reduced by package podcache. Everything that it starts
// ends with ctx.
func (f *Follower) Register(ctx context.Context, mgr manager.Manager) {
	f.ensure = func(c collection) *collectionWatch { return f.watches.ensure(ctx, c) }
	observeNamespaces := sync.OnceFunc(func() {
		go f.namespaces.Run(ctx, workersName, f.options.Clock, labelledNamespaces(f.watches.client))
	})
	f.observePods = engage.Once(func() error {
		observeNamespaces()
		if err := f.namespaces.waitUntilKnown(ctx); err != nil {
			return err
		}
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

// Missing returns a *needs.MissingError if the source, as far as is known, lacks an object without which the pod cannot
// start. Ensure makes sure. Missing reads memory only. When its answer changes, Options.Appeared is called.
func (f *Follower) Missing(pod *corev1.Pod) error {
	return missing(pod.Namespace, needs.Followed(pod), f.watches.lacks)
}

// missing returns a *needs.MissingError for objects that are absent and not optional. A ServiceAccount may be the
// target's own.
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

// Ensure returns nil once the target has up-to-date copies of everything that the pod refers to. It returns a
// *needs.MissingError if the source lacks an object, and a *needs.RefusedError if the target refuses a copy. After any
// other error it may be called again.
func (f *Follower) Ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	followed := needs.Followed(pod)
	if len(followed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.EnsureObjects)
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
		group.Go(func() error { // An object that is not known may be new, so the source is asked.
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

// findMissing returns a *needs.MissingError for objects that the source lacks. A watch may be a moment behind, so the
// API server confirms that a required object is absent.
func (f *Follower) findMissing(ctx context.Context, namespace string, followed []needs.Need) error {
	var watches []*collectionWatch
	for _, need := range followed {
		c := collection{namespace, need.Resource}
		w := f.ensure(c)
		if slices.Contains(watches, w) {
			continue
		}
		watches = append(watches, w)
		if !f.users.isReferredTo(c) { // If the pod is gone, nobody else ends the watch.
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

// podChanged counts the objects to which a proxy of the cache refers now, in place of earlier ones.
func (f *Follower) podChanged(was, is any) {
	old, _ := watch.Unwrap[*corev1.Pod](was)
	pod, _ := watch.Unwrap[*corev1.Pod](is)
	before, after := usageOf(old), usageOf(pod)
	if before.equal(after) {
		return
	}
	f.users.replaceUsage(before, after)
	if after.node != "" && f.namespaces.include(after.namespace) {
		f.refreshAll(after.objects())
	}
	f.forgetUnneeded(before)
}

// namespaceEnabled begins to follow the objects that proxies in targets need.
func (f *Follower) namespaceEnabled(namespace string) {
	for _, l := range f.links.All() {
		f.refreshAll(slices.DeleteFunc(f.users.neededOn(l.target.NodeName), func(o objectKey) bool {
			return o.namespace != namespace
		}))
	}
}

// refreshAll watches objects and compares them with their copies: they may have changed since they were copied.
func (f *Follower) refreshAll(objects []objectKey) {
	for _, o := range objects {
		f.ensure(o.collection())
		f.compare(o)
	}
}

// forgetUnneeded forgets the copies of objects that nobody needs any more, and ends their watches.
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

// compare enqueues an object for each target where pods need it and the copy is outdated.
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
		"The objects to which pods refer are not known; trying again",
		"resource",
		c.resource,
		"namespace",
		c.namespace,
	)
}
