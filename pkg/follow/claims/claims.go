package claims

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// unaskedFor is how long claims are watched at least after the last question about them.
	unaskedFor = 10 * time.Minute
	// maxFound is how many namespaces are watched because a target shows copies there.
	maxFound = 1000
)

// Options configures Claims. All fields are required.
type Options struct {
	// Config reaches the source cluster's API server, without a client-side rate limit and without a time-out.
	Config *rest.Config
	// Scheme and Mapper know PersistentVolumeClaims and StorageClasses.
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Exists says whether there is a (Cluster)Target of a name, as targetkind.Name returns it. It reads memory only,
	// and says yes if it does not know.
	Exists func(ctx context.Context, target string) bool
	// Connected returns the names of the (Cluster)Targets that pods of a namespace may use, as targetkind.Name returns
	// them, and that were connected at some time since then. It reads memory only.
	Connected func(ctx context.Context, namespace string, since time.Time) ([]string, error)
	// Appeared is called when a change of claims may let the pods of a namespace go to a target.
	Appeared func(namespace string)
	Clock    clock.WithTicker
	// Recorder records events about claims in the source.
	Recorder events.EventRecorder
	Logger   logr.Logger
}

// Claims knows the PersistentVolumeClaims to which pods refer, and makes and deletes their copies in targets. It
// observes an engage.Registry; Observe it before the first target is engaged. It must run on the leader only. It is
// safe for concurrent use.
type Claims struct {
	options Options

	source   *cluster
	ensuring serial[types.NamespacedName]
	records  records
	asks     asks
	leads    atomic.Pointer[time.Time] // since when
	targets  engage.PerTarget[*cluster]
}

var _ engage.Observer = &Claims{}

// New makes Claims. Register must be called before any other method.
func New(options Options) (*Claims, error) {
	reached, err := client.NewWithWatch(options.Config, client.Options{Scheme: options.Scheme, Mapper: options.Mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	c := &Claims{options: options}
	c.source = &cluster{
		sourceID: options.Source.ClusterID,
		client:   reached,
		objects: func(list client.ObjectList, options ...client.ListOption) toolscache.ListerWatcher {
			return watch.ListerWatcher(reached, list, options...)
		},
		clock:   options.Clock,
		claims:  map[string]*watched{},
		listed:  func(namespace string) { c.sourceChanged(namespace, "") },
		changed: c.sourceChanged,
	}
	return c, nil
}

// Register lets claims of the source be watched until ctx ends. The manager stops watches about which nobody asks any
// more.
func (c *Claims) Register(ctx context.Context, mgr manager.Manager) error {
	c.source.life = ctx
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		now := c.options.Clock.Now()
		c.leads.Store(&now)
		ticker := c.options.Clock.NewTicker(unaskedFor)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-ticker.C():
				c.stopUnasked(now.Add(-unaskedFor))
			}
		}
	}))
}

// stopUnasked stops watches about which nobody asked since then. In targets, watches of namespaces with copies stay. In
// the source, watches of namespaces that are watched in a target stay. It also forgets where copies of claims are that
// are gone, and which pods asked for claims before then.
func (c *Claims) stopUnasked(since time.Time) {
	c.records.tidy(func(key types.NamespacedName) bool {
		here := c.source.listedClaims(key.Namespace)
		return here != nil && here.Entry(key.Name) == nil
	})
	c.asks.tidy(since)
	targets := c.targets.All()
	for _, t := range targets {
		t.stopUnasked(since, func(_ string, w *watched) bool { return w.hasCopies() })
	}
	c.source.stopUnasked(since, func(namespace string, _ *watched) bool {
		return slices.ContainsFunc(targets, func(t *cluster) bool { return t.isWatching(namespace) })
	})
}

// Engaged looks for copies in the target, and updates and deletes them until ctx ends.
func (c *Claims) Engaged(ctx context.Context, target *engage.Target) error {
	objects, err := target.Objects()
	if err != nil {
		return err
	}
	t := &cluster{
		location: location{targetkind.Name(target.Key), target.ClusterID},
		sourceID: c.options.Source.ClusterID,
		client:   target.Gate.Client(target.APIReader, target.Client),
		objects:  objects.ListerWatcher,
		clock:    c.options.Clock,
		life:     ctx,
		target:   target,
		writer:   writer.NewWriter(target.Client, target.APIReader, c.options.Source),
		claims:   map[string]*watched{},
		idle:     sets.New[types.NamespacedName](),
	}
	t.listed = func(namespace string) { c.targetChanged(t, namespace, "") }
	t.changed = func(namespace, name string) { c.targetChanged(t, namespace, name) }
	t.workers = c.newWorkers(t)
	c.targets.Set(ctx, target, t)
	if err := c.lookForCopies(ctx, t); err != nil {
		return err
	}
	return t.workers.Start(ctx)
}

// Objection returns the reason, for users, why a pod's claims keep it from a target. It is empty if the pod can go
// there. Claims that Release can take back where the pod is now do not count; from may be nil. It reads memory only. It
// asks for claims that are not known yet; when they are known, Appeared is called. If a copy without data keeps a pod
// that is nowhere from the target, it has the copy taken back later, unless the copy is of use by then.
func (c *Claims) Objection(pod *corev1.Pod, target, from *engage.Target) string {
	names := namesOf(pod)
	if len(names) == 0 {
		return ""
	}
	t, ok := c.targets.Get(target)
	if !ok {
		return "its claims are not known yet"
	}
	if !target.Allows(pod.Namespace) {
		return notAllowed(pod.Namespace)
	}
	here, there := c.source.claimsIn(pod.Namespace), t.claimsIn(pod.Namespace)
	if err := here.Err(); err != nil {
		return c.source.explain(err, "claims in namespace "+pod.Namespace)
	}
	if err := there.Err(); err != nil {
		return t.explain(err, "claims in namespace "+pod.Namespace)
	}
	for _, name := range names {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		original := here.Entry(name)
		s := situation{original: c.records.recall(key, original), there: there.Entry(name)}
		if c.isReleasable(key, original, from) { // Of what is only remembered, Release knows nothing.
			s.original = s.original.givenFree()
		}
		s.keeping, s.keeper = c.keeping(pod.Namespace, s, t, func(keeper *cluster) keeping {
			return keeper.keeps(pod.Namespace, name)
		})
		v := decide(s)
		if v.makes {
			_, v.objection = c.classFor(s.original, t)
		}
		if s.keeping == kept && from == nil {
			c.keepsForNothing(key, original)
		}
		if v.objection != "" {
			return fmt.Sprintf("claim %q %s", name, v.objection)
		}
	}
	return ""
}

func notAllowed(namespace string) string {
	return "it is not allowed namespace " + namespace
}

// keeps answers from memory. It starts a watch of the claims, so that the next answer is better.
func (c *cluster) keeps(namespace, name string) keeping {
	w := c.claimsIn(namespace)
	switch {
	case w.Err() != nil:
		return silent
	case w.Entry(name) != nil:
		return kept
	default:
		return free
	}
}

// classFor chooses the storage class of a copy in a target.
func (c *Claims) classFor(original *claim, t *cluster) (name *string, objection string) {
	here, there := c.source.storageClasses(), t.storageClasses()
	if err := here.Err(); err != nil {
		return nil, "needs a storage class: " + c.source.explain(err, "storage classes")
	}
	if err := there.Err(); err != nil {
		return nil, "needs a storage class: " + t.explain(err, "storage classes")
	}
	return chooseClass(*original, here.Entries(), there.Entries())
}
