package simulation

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ref names an object of a cluster.
type ref struct {
	kind string
	types.NamespacedName
}

const (
	kindPod      = "Pod"
	kindChaperon = "PodChaperon"
)

func refOf(o client.Object) ref { return ref{kindOf(o), client.ObjectKeyFromObject(o)} }

func kindOf(o any) string {
	if metadata, ok := o.(*metav1.PartialObjectMetadata); ok {
		return metadata.Kind
	}
	return reflect.TypeOf(o).Elem().Name()
}

// change is one change of an object. Before is nil if the object is new, and after is nil if it is gone.
type change struct {
	before, after client.Object
	at            time.Time
	version       int // of the cluster
}

func (c change) object() client.Object {
	if c.after != nil {
		return c.after
	}
	return c.before
}

// cluster is an API server with its objects. The objects are never changed, but replaced. Only the simulation's own
// goroutine uses it.
type cluster struct {
	name    string
	version int
	objects map[ref]client.Object
	// logs are all changes so far, by the objects' kind.
	logs map[string][]change
	// made counts the objects of a name, for their UIDs.
	made map[ref]int
	// created counts them by kind.
	created map[string]int
	// changed is called after each change.
	changed func(c *cluster, now change)
	// ahead is by how much its clocks are ahead of the source's.
	ahead time.Duration
}

func newCluster(name string) *cluster {
	return &cluster{
		name: name, version: 1, objects: map[ref]client.Object{}, logs: map[string][]change{}, made: map[ref]int{},
		created: map[string]int{},
	}
}

// clock is the one of the cluster's programs.
func (c *cluster) clock() skewed { return skewed{by: c.ahead} }

// now is what an API server notes as the time.
func (c *cluster) now() metav1.Time { return metav1.NewTime(c.clock().Now().Truncate(time.Second)) }

func (c *cluster) get(r ref) (client.Object, error) {
	if o, ok := c.objects[r]; ok {
		return o, nil
	}
	return nil, apierrors.NewNotFound(resourceOf(r), r.Name)
}

func resourceOf(r ref) schema.GroupResource { return schema.GroupResource{Resource: r.kind} }

// list returns the objects of a type, in order.
func list[T client.Object](c *cluster) []T {
	var all []T
	for _, o := range c.objects {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	slices.SortFunc(all, func(a, b T) int { return compareNames(a.GetName(), b.GetName()) })
	return all
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func (c *cluster) create(o client.Object) (client.Object, error) {
	r := refOf(o)
	if c.objects[r] != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(r), r.Name)
	}
	created := copyOf(o)
	c.made[r]++
	c.created[r.kind]++
	created.SetUID(types.UID(c.name + "/" + r.kind + "/" + r.Name + "/" + strconv.Itoa(c.made[r])))
	created.SetCreationTimestamp(c.now())
	if pod, ok := created.(*corev1.Pod); ok {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	}
	c.put(created)
	return created, nil
}

func copyOf(o client.Object) client.Object {
	copied, _ := o.DeepCopyObject().(client.Object)
	return copied
}

// put stores a new version of an object, which must be the caller's own.
func (c *cluster) put(o client.Object) {
	r := refOf(o)
	before := c.objects[r]
	c.version++
	o.SetResourceVersion(strconv.Itoa(c.version))
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 &&
		ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0) == 0 {
		if before != nil {
			c.note(change{before: withVersion(before, c.version)})
			delete(c.objects, r)
		}
		return
	}
	c.objects[r] = o
	c.note(change{before: before, after: o})
}

func withVersion(o client.Object, version int) client.Object {
	o = copyOf(o)
	o.SetResourceVersion(strconv.Itoa(version))
	return o
}

func (c *cluster) note(now change) {
	kind := kindOf(now.object())
	now.at, now.version = time.Now(), c.version
	c.logs[kind] = append(c.logs[kind], now)
	c.changed(c, now)
}

func (c *cluster) remove(r ref) {
	c.version++
	before := withVersion(c.objects[r], c.version)
	delete(c.objects, r)
	c.note(change{before: before})
}

func conflict(r ref, what string) error {
	return apierrors.NewConflict(resourceOf(r), r.Name, fmt.Errorf("precondition failed: %s", what))
}

func (c *cluster) delete(r ref, options *client.DeleteOptions) error {
	o, err := c.get(r)
	if err != nil {
		return err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != o.GetUID() {
			return conflict(r, "UID")
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion() {
			return conflict(r, "resourceVersion")
		}
	}
	if pod, ok := o.(*corev1.Pod); ok {
		c.deletePod(r, pod, options.GracePeriodSeconds)
		return nil
	}
	if slices.Contains(o.GetFinalizers(), claimProtection) {
		if o.GetDeletionTimestamp() == nil {
			c.putDeleting(o, 0)
		}
		return nil
	}
	c.deleteChaperon(r, o, options.PropagationPolicy)
	return nil
}

// claimProtection is the finalizer that keeps claims which pods use.
const claimProtection = "kubernetes.io/pvc-protection"

// deletePod deletes as the API server does: with a grace period only if the pod is bound and has not finished. A longer
// one than before changes nothing.
func (c *cluster) deletePod(r ref, pod *corev1.Pod, asked *int64) {
	grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if asked != nil {
		grace = *asked
	}
	if pod.Spec.NodeName == "" || finished(pod.Status.Phase) {
		grace = 0
	}
	if pod.DeletionTimestamp != nil && grace >= ptr.Deref(pod.DeletionGracePeriodSeconds, 0) {
		if grace > 0 || len(pod.Finalizers) > 0 {
			return
		}
	}
	if grace == 0 && len(pod.Finalizers) == 0 {
		c.remove(r)
		return
	}
	c.putDeleting(pod, grace)
}

func (c *cluster) putDeleting(o client.Object, grace int64) {
	deleting := copyOf(o)
	ends := metav1.NewTime(c.now().Add(time.Duration(grace) * time.Second))
	deleting.SetDeletionTimestamp(&ends)
	deleting.SetDeletionGracePeriodSeconds(&grace)
	c.put(deleting)
}

func (c *cluster) deleteChaperon(r ref, o client.Object, propagation *metav1.DeletionPropagation) {
	switch {
	case ptr.Deref(propagation, metav1.DeletePropagationBackground) == metav1.DeletePropagationBackground:
		c.remove(r)
	case o.GetDeletionTimestamp() == nil:
		deleting := copyOf(o)
		deleting.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
		c.putDeleting(deleting, 0)
	}
}

// patch applies a merge patch or a strategic merge patch, to the status or to everything else.
func (c *cluster) patch(r ref, status bool, kind types.PatchType, data []byte) (client.Object, error) {
	before, err := c.get(r)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	var patched []byte
	if kind == types.StrategicMergePatchType {
		patched, err = strategicpatch.StrategicMergePatch(is, data, before)
	} else {
		patched, err = jsonpatch.MergePatch(is, data)
	}
	if err != nil {
		return nil, err
	}
	after, _ := reflect.New(reflect.TypeOf(before).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(patched, after); err != nil {
		return nil, err
	}
	switch {
	case after.GetUID() != before.GetUID():
		return nil, conflict(r, "UID")
	case after.GetResourceVersion() != before.GetResourceVersion():
		return nil, conflict(r, "resourceVersion")
	}
	return c.update(before, after, status)
}

// update stores the status of an object, or everything else.
func (c *cluster) update(before, after client.Object, status bool) (client.Object, error) {
	if status {
		changed := copyOf(before)
		setStatus(changed, statusOf(after))
		after = changed
	} else {
		setStatus(after, statusOf(before))
	}
	if reflect.DeepEqual(before, after) {
		return before, nil
	}
	c.put(after)
	return after, nil
}

// statusOf returns the status of a pod, or of a PodChaperon's delegate. Others have none.
func statusOf(o client.Object) *corev1.PodStatus {
	switch o := o.(type) {
	case *corev1.Pod:
		return &o.Status
	case *v1alpha1.PodChaperon:
		return &o.Status
	default:
		return nil
	}
}

func setStatus(o client.Object, status *corev1.PodStatus) {
	if to := statusOf(o); to != nil {
		*to = *status.DeepCopy()
	}
}

// bind assigns a pod to a node.
func (c *cluster) bind(r ref, uid types.UID, node string) error {
	o, err := c.get(r)
	if err != nil {
		return err
	}
	pod, _ := o.(*corev1.Pod)
	switch {
	case pod.UID != uid:
		return conflict(r, "UID")
	case pod.Spec.NodeName != "":
		return conflict(r, "it is bound")
	case pod.DeletionTimestamp != nil:
		return conflict(r, "it is being deleted")
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	c.setCondition(&bound.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	c.put(bound)
	return nil
}

func (c *cluster) setCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(other corev1.PodCondition) bool {
		return other.Type == condition.Type
	})
	condition.LastTransitionTime = c.now()
	status.Conditions = append(status.Conditions, condition)
}

func finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
