package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// isCopyOf says whether an object is marked as a copy of a source.
func isCopyOf(source string, o client.Object) bool {
	_, followed := o.GetAnnotations()[v1alpha1.AnnotationFollowedBy]
	return followed && hasLabelOf(source, o)
}

// hasLabelOf says whether an object has the label of a copy. It is a copy without the annotation, too.
func hasLabelOf(source string, o client.Object) bool {
	return o.GetLabels()[v1alpha1.LabelParentClusterID] == source
}

// copyChanged checks a change in a target by the source, or by the target's manager.
func (w *supply) copyChanged(k *site, now change) {
	if k.by == nil {
		return
	}
	o := now.object()
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
		w.claimChanged(k, claim, now)
		return
	}
	source := o.GetLabels()[v1alpha1.LabelParentClusterID]
	switch {
	case unmarks(now):
		w.violate("%s made %s in %s without the marks of a copy", k.by.name, o.GetName(), k.name)
	case now.before == nil:
	case k.by != k.collector && now.before.GetLabels()[v1alpha1.LabelParentClusterID] != sourceID,
		k.by == k.collector && (!isCopyOf(source, now.before) || source == ""):
		w.violate("%s changed %s of somebody else in %s", k.by.name, o.GetName(), k.name)
	case now.after != nil:
	case k.by != k.collector && !mayDelete(now.before):
		w.violate("%s deleted %s in %s", k.by.name, o.GetName(), k.name)
	case k.by == k.collector && w.keeps(k, source, refOf(o)):
		w.violate("%s deleted the copy %s, which a PodChaperon needs", k.by.name, o.GetName())
	}
}

// unmarks says whether a change leaves an object without the marks of a copy. Somebody in the target may have removed
// the annotation a moment ago.
func unmarks(now change) bool {
	return now.after != nil && !isCopyOf(sourceID, now.after) &&
		(now.before == nil || isCopyOf(sourceID, now.before))
}

// keeps says whether a target must keep a copy, because a PodChaperon needs it. The source does not touch the copy of a
// ServiceAccount that it lacks when it places a pod.
func (w *supply) keeps(k *site, source string, r ref) bool {
	original := w.source.objects[r]
	return slices.ContainsFunc(list[*v1alpha1.PodChaperon](k.cluster), func(chaperon *v1alpha1.PodChaperon) bool {
		untouched := r.kind == "ServiceAccount" && source == sourceID &&
			(original == nil || !w.source.createdAt(original).Before(w.placed[chaperon.UID]))
		return chaperon.Labels[v1alpha1.LabelParentClusterID] == source && needsOf(&chaperon.Spec)[r] && !untouched
	})
}

// needs says whether a PodChaperon of a source needs an object.
func (k *site) needs(source string, r ref) bool {
	for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
		if chaperon.Labels[v1alpha1.LabelParentClusterID] == source && needsOf(&chaperon.Spec)[r] {
			return true
		}
	}
	return false
}

func (w *supply) claimChanged(k *site, claim *corev1.PersistentVolumeClaim, now change) {
	deleted := now.after == nil || claim.DeletionTimestamp != nil && now.before.GetDeletionTimestamp() == nil
	original := w.source.claim()
	switch {
	case now.before == nil && isCopyOf(sourceID, claim):
	case k.by == k.collector:
		w.violate("%s changed a claim", k.by.name)
	case now.before == nil || !hasLabelOf(sourceID, now.before) || parentOf(now.before) == "":
		w.violate("%s changed the claim of somebody else in %s", k.by.name, k.name)
	case deleted && original != nil && original.UID == parentOf(claim):
		w.violate("%s deleted the copy of a claim in %s, whose original exists", k.by.name, k.name)
	}
}

// sourceChanged checks a change in the source. The product writes nothing there but where a claim is.
func (w *supply) sourceChanged(_ *cluster, now change) {
	if w.source.by == nil {
		return
	}
	before, _ := now.before.(*corev1.PersistentVolumeClaim)
	after, _ := now.after.(*corev1.PersistentVolumeClaim)
	if before == nil || after == nil || !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		w.violate("%s changed %s in the source", w.source.by.name, now.object().GetName())
	}
}

// checkPlaced checks that a target has what a PodChaperon needs when it is made.
func (w *supply) checkPlaced(k *site, chaperon *v1alpha1.PodChaperon) {
	for r := range needsOf(&chaperon.Spec) {
		if r.kind != "ServiceAccount" && r != claimRef() && k.objects[r] == nil && !w.strange[k.name+"/"+r.Name] {
			w.violate("a pod is placed in %s, which lacks %s", k.name, r.Name)
		}
	}
}

// write notes which volume has the data of a claim, and checks that no other one has. A pod whose placement began
// before the claim existed in the source uses the target's own claim of that name, if there is one.
func (w *supply) write(k *site, claim *corev1.PersistentVolumeClaim, placed time.Time) {
	original := parentOf(claim)
	here := w.source.claim()
	if here != nil && !isCopyOf(sourceID, claim) && w.source.createdAt(here).Before(placed) {
		original = here.UID
	}
	if original == "" {
		return // It is nobody's copy.
	}
	first, known := w.volumes[original]
	if known && first.uid != claim.UID && first.exists() && !w.strange[string(original)] {
		w.violate("a delegate runs in %s on an empty volume, and its data are in %s", k.name, first.at.name)
	}
	w.volumes[original] = volume{k, claim.UID}
}

// createdAt returns when an object was created, which is more exact than what its metadata say.
func (c *cluster) createdAt(o client.Object) time.Time {
	for _, now := range c.logs[kindOf(o)] {
		if now.before == nil && now.after.GetUID() == o.GetUID() {
			return now.at
		}
	}
	return time.Time{}
}

func (v volume) exists() bool {
	claim := v.at.claim()
	return claim != nil && claim.UID == v.uid
}

// unsettled says what is not as it must be after everything is repaired and time has passed.
func (w *supply) unsettled() error {
	for _, proxy := range list[*corev1.Pod](w.source.cluster) {
		if err := w.unsettledProxy(proxy); err != nil {
			return err
		}
	}
	for _, k := range w.sites {
		for _, r := range w.refs() {
			if err := w.unsettledCopy(k, r); err != nil {
				return err
			}
		}
		if err := w.unsettledServices(k); w.serving && err != nil {
			return err
		}
		if err := w.unsettledClaim(k); err != nil {
			return err
		}
	}
	return nil
}

func (w *supply) unsettledProxy(proxy *corev1.Pod) error {
	at, chaperon := w.chaperonOf(proxy)
	switch {
	case proxy.DeletionTimestamp != nil:
		return fmt.Errorf("%s is still being deleted", proxy.Name)
	case chaperon != nil && at.running[chaperon.UID] && proxy.Spec.NodeName != "" || !w.foreseen(proxy):
		return nil
	case proxy.Spec.NodeName == "":
		return fmt.Errorf("%s is not placed", proxy.Name)
	default:
		return fmt.Errorf("%s does not run", proxy.Name)
	}
}

// foreseen says whether the source has everything that a pod needs, and nobody meddled with that. The original may have
// been deleted while a delegate was about to use the copy. The kubelet does not start the delegate then, and the copy
// stays.
func (w *supply) foreseen(proxy *corev1.Pod) bool {
	for r := range needsOf(&proxy.Spec) {
		o := w.source.objects[r]
		if o == nil || o.GetDeletionTimestamp() != nil || w.strange[string(o.GetUID())] {
			return false
		}
		for _, k := range w.sites {
			now := k.objects[r]
			if w.strange[k.name+"/"+r.Name] || now != nil && now.GetDeletionTimestamp() != nil {
				return false
			}
		}
	}
	return true
}

// unneeded says whether nobody needs a copy of ours. An Ingress that is no copy any more still needs its Secret.
func (w *supply) unneeded(k *site, r ref, made client.Object) bool {
	return isCopyOf(sourceID, made) && !k.needs(sourceID, r) && !k.certifies(sourceID, r) && !w.waitedFor(r) &&
		!w.refusesIngress(k)
}

func (w *supply) unsettledCopy(k *site, r ref) error {
	original, made := w.source.objects[r], k.objects[r]
	needed := k.needs(sourceID, r) || k.certifies(sourceID, r) && isCopyOf(sourceID, k.ingress())
	switch {
	case made != nil && w.unneeded(k, r, made):
		return fmt.Errorf("nobody needs the copy %s in %s", r.Name, k.name)
	case made != nil && isCopyOf("other", made) && !k.certifies("other", r):
		return fmt.Errorf("nobody needs the copy %s of another source in %s", r.Name, k.name)
	case !needed || original == nil || w.strange[k.name+"/"+r.Name]:
		return nil
	case made == nil:
		return fmt.Errorf("%s lacks %s, which is needed", k.name, r.Name)
	case dataOf(made) != dataOf(original):
		return fmt.Errorf("the copy %s in %s is not the same as its original", r.Name, k.name)
	default:
		return nil
	}
}

// waitedFor says whether a pod that is not placed refers to an object. Attempts to place it keep the copy.
func (w *supply) waitedFor(r ref) bool {
	return slices.ContainsFunc(list[*corev1.Pod](w.source.cluster), func(proxy *corev1.Pod) bool {
		return proxy.Spec.NodeName == "" && needsOf(&proxy.Spec)[r]
	})
}

func (w *supply) unsettledClaim(k *site) error {
	original, made := w.source.claim(), k.claim()
	switch {
	case made == nil || made.DeletionTimestamp != nil, !isCopyOf(sourceID, made) || w.strange[k.name+"/"+dataClaim]:
		return nil // A claim that is being deleted goes with its last pod.
	case original == nil || original.UID != parentOf(made):
		return fmt.Errorf("a copy in %s belongs to a claim that is gone", k.name)
	case made.Status.Phase == corev1.ClaimBound && original.DeletionTimestamp == nil &&
		made.Spec.Resources.Requests.Storage().Cmp(*original.Spec.Resources.Requests.Storage()) != 0:
		return fmt.Errorf("the claim in %s was not expanded", k.name)
	default:
		return nil
	}
}
