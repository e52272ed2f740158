package chaperon

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// statusPatch returns the merge patch that gives the PodChaperon the status. The UID is a precondition: a status must
// not be written to a new PodChaperon of the same name. A status without a delegate has the resourceVersion as a
// precondition, too. It must not replace the status of a delegate that was created meanwhile.
func statusPatch(chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) (client.Patch, error) {
	before := &v1alpha1.PodChaperon{Status: chaperon.Status}
	before.ResourceVersion = chaperon.ResourceVersion
	after := &v1alpha1.PodChaperon{Status: *status}
	after.ResourceVersion = chaperon.ResourceVersion
	after.UID = chaperon.UID
	patch := client.MergeFrom(before)
	if lostCondition(status) != nil {
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	data, err := patch.Data(after)
	if err != nil {
		return nil, err
	}
	return client.RawPatch(types.MergePatchType, data), nil
}

// ownWrites holds the PodChaperons that we wrote, until the cache shows them. It also remembers the PodChaperons whose
// delegates the cache had after their end was requested, and those whose delegates we created.
type ownWrites struct {
	mu        sync.Mutex // guards the fields below
	objects   map[types.NamespacedName]*v1alpha1.PodChaperon
	endings   map[types.NamespacedName]types.UID
	creations map[types.NamespacedName]types.UID
}

// remember keeps a PodChaperon that the API server returned for a write.
func (w *ownWrites) remember(written *v1alpha1.PodChaperon) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.objects == nil {
		w.objects = map[types.NamespacedName]*v1alpha1.PodChaperon{}
	}
	w.objects[client.ObjectKeyFromObject(written)] = written
}

// newest returns the newer one of the cached PodChaperon and the PodChaperon that we wrote.
func (w *ownWrites) newest(cached *v1alpha1.PodChaperon) *v1alpha1.PodChaperon {
	key := client.ObjectKeyFromObject(cached)
	w.mu.Lock()
	defer w.mu.Unlock()
	written, ok := w.objects[key]
	if !ok {
		return cached
	}
	order, err := resourceversion.CompareResourceVersion(cached.ResourceVersion, written.ResourceVersion)
	if err == nil && order < 0 && cached.UID == written.UID {
		return written
	}
	delete(w.objects, key)
	return cached
}

func (w *ownWrites) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
	delete(w.endings, key)
	delete(w.creations, key)
}

// noteEnding remembers that the cache has the delegate, whose end was requested.
func (w *ownWrites) noteEnding(chaperon *v1alpha1.PodChaperon) { w.note(&w.endings, chaperon) }

// forgetEnding notes that nobody asks for the delegate's end any more.
func (w *ownWrites) forgetEnding(chaperon *v1alpha1.PodChaperon) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.endings, client.ObjectKeyFromObject(chaperon))
}

// ending says whether the cache had the delegate after its end was requested. If the cache then lacks the delegate, the
// delegate is gone.
func (w *ownWrites) ending(chaperon *v1alpha1.PodChaperon) bool { return w.noted(&w.endings, chaperon) }

// noteCreated remembers that the delegate's creation is requested.
func (w *ownWrites) noteCreated(chaperon *v1alpha1.PodChaperon) { w.note(&w.creations, chaperon) }

// created says whether the delegate's creation was requested before.
func (w *ownWrites) created(chaperon *v1alpha1.PodChaperon) bool {
	return w.noted(&w.creations, chaperon)
}

func (w *ownWrites) note(in *map[types.NamespacedName]types.UID, chaperon *v1alpha1.PodChaperon) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *in == nil {
		*in = map[types.NamespacedName]types.UID{}
	}
	(*in)[client.ObjectKeyFromObject(chaperon)] = chaperon.UID
}

func (w *ownWrites) noted(in *map[types.NamespacedName]types.UID, chaperon *v1alpha1.PodChaperon) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return (*in)[client.ObjectKeyFromObject(chaperon)] == chaperon.UID
}
