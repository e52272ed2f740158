package simulation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var errNotOffered = errors.New("the simulation does not offer this")

// lagging is a cache of one kind of objects. It gets changes in their order, one by one, when the simulation says so.
type lagging struct {
	cache.Informer

	name     string
	ctx      context.Context //nolint:containedctx // The cache ends with it.
	from     *cluster
	kind     string
	selects  func(client.Object) bool
	objects  map[ref]client.Object
	seen     int // of the changes
	handlers []toolscache.ResourceEventHandler
	// transform is what the cache keeps of an object. It is nil if that is everything.
	transform func(client.Object) client.Object
	// gated is nil if the cache is not behind the gate.
	gated *gated
}

// newLagging returns a cache that has synced. Its list is so many changes old.
func newLagging(name string, of view, selects func(client.Object) bool) *lagging {
	l := &lagging{name: name, from: of.from, kind: of.kind, selects: selects, objects: map[ref]client.Object{}}
	if of.ago == 0 {
		l.relist()
		return l
	}
	for range len(of.from.logs[of.kind]) - of.ago {
		l.next()
	}
	return l
}

// newLaggingBehind returns a cache behind the gate that has synced. It asks for its first list as a reflector does.
func newLaggingBehind(g *gated, name string, of view) *lagging {
	l := &lagging{
		name: name, from: of.from, kind: of.kind, selects: everything, objects: map[ref]client.Object{}, gated: g,
	}
	l.listBehind(anyTime)
	return l
}

func everything(client.Object) bool { return true }

// behind says whether there is a change that the cache has not got.
func (l *lagging) behind() bool { return l.seen < len(l.from.logs[l.kind]) }

// lag is how long the cache has lacked a change.
func (l *lagging) lag() time.Duration {
	if !l.behind() {
		return 0
	}
	return time.Since(l.from.logs[l.kind][l.seen].at)
}

// next gets the next change.
func (l *lagging) next() {
	now := l.from.logs[l.kind][l.seen]
	l.seen++
	if l.gated != nil {
		l.nextBehind(now)
		return
	}
	if now.after == nil {
		l.drop(refOf(now.before), now.before)
		return
	}
	l.store(now.after)
}

// nextBehind gets what the gate makes of a change.
func (l *lagging) nextBehind(now change) {
	if !l.gated.selects(now.object()) {
		return
	}
	switch event := l.gated.pass(now); event.Type {
	case watch.Bookmark, watch.Error:
	case watch.Deleted:
		gone, _ := event.Object.(client.Object)
		l.drop(refOf(gone), gone)
	case watch.Added, watch.Modified:
		passed, _ := event.Object.(client.Object)
		l.store(passed)
	}
}

func (l *lagging) store(o client.Object) {
	r := refOf(o)
	before := l.objects[r]
	if !l.selects(o) {
		l.drop(r, o)
		return
	}
	if l.transform != nil {
		o = l.transform(o)
	}
	l.objects[r] = o
	for _, h := range l.handlers {
		if before == nil {
			h.OnAdd(o, false)
		} else {
			h.OnUpdate(before, o)
		}
	}
}

func (l *lagging) drop(r ref, last any) {
	if l.objects[r] == nil {
		return
	}
	delete(l.objects, r)
	if o, ok := last.(client.Object); ok && l.transform != nil {
		last = l.transform(o)
	}
	for _, h := range l.handlers {
		h.OnDelete(last)
	}
}

// listBehind lists behind the gate.
func (l *lagging) listBehind(version string) {
	objects, seen := l.gated.list(version)
	listed := map[ref]bool{}
	for _, o := range objects {
		listed[refOf(o)] = true
		l.store(o)
	}
	for _, o := range sorted(l.objects) {
		if !listed[refOf(o)] {
			l.dropUnseen(o)
		}
	}
	l.seen = seen
}

// relist skips changes: the watch was lost, and the cache lists what there is.
func (l *lagging) relist() {
	if l.gated != nil {
		l.listBehind(strconv.Itoa(l.seen))
		return
	}
	for _, o := range sorted(l.from.objects) {
		if kindOf(o) == l.kind && l.selects(o) {
			l.store(o)
		}
	}
	for _, o := range sorted(l.objects) {
		if now := l.from.objects[refOf(o)]; now == nil || !l.selects(now) {
			l.dropUnseen(o)
		}
	}
	l.seen = len(l.from.logs[l.kind])
}

// dropUnseen drops an object whose end the watch has not shown.
func (l *lagging) dropUnseen(o client.Object) {
	l.drop(refOf(o), toolscache.DeletedFinalStateUnknown{Key: client.ObjectKeyFromObject(o).String(), Obj: o})
}

func sorted(objects map[ref]client.Object) []client.Object {
	all := make([]client.Object, 0, len(objects))
	for _, o := range objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b client.Object) int { return compareNames(a.GetName(), b.GetName()) })
	return all
}

// AddEventHandler calls the handler with the objects that there are, and then with changes.
func (l *lagging) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	for _, o := range sorted(l.objects) {
		h.OnAdd(o, true)
	}
	l.handlers = append(l.handlers, h)
	return synced{}, nil
}

// RemoveEventHandler does nothing: whoever removes a handler ignores later events.
func (*lagging) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// synced is the registration of a handler that got everything.
type synced struct{}

func (synced) HasSynced() bool                          { return true }
func (synced) HasSyncedChecker() toolscache.DoneChecker { return synced{} }
func (synced) Name() string                             { return "" }
func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// caches are those of one client, by kind.
type caches map[string]*lagging

func (c caches) get(key client.ObjectKey, o client.Object) error {
	from, ok := c[kindOf(o)]
	if !ok {
		return apierrors.NewNotFound(resourceOf(ref{kind: kindOf(o)}), key.Name)
	}
	found := from.objects[ref{from.kind, key}]
	if found == nil {
		return apierrors.NewNotFound(resourceOf(ref{kind: from.kind}), key.Name)
	}
	return assign(o, found)
}

// assign makes an object the same as another one, as a read does that does not copy.
func assign(to, from client.Object) error {
	switch to := to.(type) {
	case *corev1.Pod:
		*to = *from.(*corev1.Pod) //nolint:forcetypeassert // The kinds are the same.
	case *v1alpha1.PodChaperon:
		*to = *from.(*v1alpha1.PodChaperon) //nolint:forcetypeassert // The kinds are the same.
	case *v1alpha1.ClusterTarget:
		*to = *from.(*v1alpha1.ClusterTarget) //nolint:forcetypeassert // The kinds are the same.
	case *coordinationv1.Lease:
		*to = *from.(*coordinationv1.Lease) //nolint:forcetypeassert // The kinds are the same.
	case *metav1.PartialObjectMetadata:
		kind := to.TypeMeta
		copied := copyOf(from)
		*to = metav1.PartialObjectMetadata{TypeMeta: kind}
		to.SetNamespace(copied.GetNamespace())
		to.SetName(copied.GetName())
		to.SetUID(copied.GetUID())
		to.SetResourceVersion(copied.GetResourceVersion())
		to.SetLabels(copied.GetLabels())
		to.SetAnnotations(copied.GetAnnotations())
		to.SetDeletionTimestamp(copied.GetDeletionTimestamp())
	default:
		return errNotOffered
	}
	return nil
}

// list understands the indices that the product uses: a field and its value.
func (c caches) list(to client.ObjectList, index func(client.Object) bool) error {
	switch to := to.(type) {
	case *corev1.PodList:
		for _, o := range sorted(c[kindPod].objects) {
			if pod, ok := o.(*corev1.Pod); ok && index(o) {
				to.Items = append(to.Items, *pod)
			}
		}
	case *v1alpha1.PodChaperonList:
		for _, o := range sorted(c[kindChaperon].objects) {
			if chaperon, ok := o.(*v1alpha1.PodChaperon); ok && index(o) {
				to.Items = append(to.Items, *chaperon)
			}
		}
	default: // There are no objects of other kinds.
	}
	return nil
}

// targetCache is engage.Target.Cache.
type targetCache struct {
	cache.Cache

	caches caches
}

// GetInformer returns the informer of a kind.
func (t targetCache) GetInformer(
	_ context.Context, o client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	return t.caches[kindOf(o)], nil
}
