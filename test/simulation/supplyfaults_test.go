package simulation

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// object returns a ConfigMap or a Secret with new data.
func (w *supply) object(name string, immutable bool) client.Object {
	w.version++
	data := strconv.Itoa(w.version)
	switch name {
	case account:
		o := &corev1.ServiceAccount{ObjectMeta: metaOf(name)}
		o.Annotations = map[string]string{v1alpha1.AnnotationFollow: ""}
		o.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull-" + data}}
		return o
	case settings:
		return &corev1.ConfigMap{
			ObjectMeta: metaOf(name), Data: map[string]string{dataKey: data}, Immutable: ptr.To(immutable),
		}
	}
	return &corev1.Secret{
		ObjectMeta: metaOf(name), Data: map[string][]byte{dataKey: []byte(data)}, Immutable: ptr.To(immutable),
		Type: corev1.SecretTypeOpaque,
	}
}

// refs are the objects that pods and Ingresses refer to.
func (w *supply) refs() []ref {
	if w.serving {
		return []ref{refTo("ServiceAccount", account), refTo("Secret", secretKey)}
	}
	return []ref{refTo("ConfigMap", settings), refTo("Secret", secretKey)}
}

func refTo(kind, name string) ref {
	return ref{kind, types.NamespacedName{Namespace: namespace, Name: name}}
}

// originals are ConfigMaps and Secrets that users of the source create, change and delete.
func (w *supply) originals() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	for _, r := range w.refs() {
		now := w.source.objects[r]
		if now == nil {
			add("a user creates "+r.Name, func() { _, _ = w.source.create(w.object(r.Name, false)) })
			if r.kind != "ServiceAccount" {
				add("a user creates "+r.Name+", immutable", func() { _, _ = w.source.create(w.object(r.Name, true)) })
			}
			continue
		}
		if !immutable(now) {
			add("a user changes "+r.Name, func() {
				changed := w.object(r.Name, false)
				changed.SetUID(now.GetUID())
				w.source.put(changed)
			})
		}
		add("a user deletes "+r.Name, func() { w.source.remove(r) })
	}
	return all
}

// ofClaims are what users of the source do with a claim.
func (w *supply) ofClaims() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	claim := w.source.claim()
	if w.serving {
		return nil
	}
	if claim == nil {
		add("a user creates data", func() { _, _ = w.source.create(followedClaim()) })
		return all
	}
	add("a user deletes data", func() { _ = w.source.delete(claimRef(), &client.DeleteOptions{}) })
	if claim.DeletionTimestamp != nil {
		return all
	}
	add("a user expands data", func() {
		more := claim.DeepCopy()
		size := more.Spec.Resources.Requests[corev1.ResourceStorage]
		size.Add(resource.MustParse("1Gi"))
		more.Spec.Resources.Requests[corev1.ResourceStorage] = size
		w.source.put(more)
	})
	if claim.Annotations[v1alpha1.AnnotationFollowedTo] != "" {
		add("a user gives up the copy of data", func() {
			w.strange[string(claim.UID)] = true
			given := claim.DeepCopy()
			given.Annotations[v1alpha1.AnnotationFollowedTo] = ""
			delete(given.Annotations, v1alpha1.AnnotationFollowedToClusterID)
			w.source.put(given)
		})
	}
	return all
}

// followedClaim returns a claim that the source makes in targets.
func followedClaim() *corev1.PersistentVolumeClaim {
	claim := newClaim()
	claim.Annotations = map[string]string{v1alpha1.AnnotationFollow: ""}
	return claim
}

func newClaim() *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metaOf(dataClaim)}
	claim.Finalizers = []string{claimProtection}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	claim.Spec.StorageClassName = ptr.To(storageClass)
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return claim
}

// others are what somebody does with objects of a target.
func (w *supply) others() []action {
	var all []action
	for _, k := range w.sites {
		for _, r := range w.touched(k) {
			if now := k.objects[r]; now == nil {
				all = append(all, w.intruders(k, r)...)
			} else {
				all = append(all, w.meddling(k, r, now)...)
			}
		}
	}
	return all
}

// strangely is an action after which nobody foresees what becomes of an object.
func (w *supply) strangely(k *site, what string, r ref, do func()) action {
	return action{label: fmt.Sprintf("somebody %s %s in %s", what, r.Name, k.name), do: func() {
		w.strange[k.name+"/"+r.Name] = true
		do()
	}}
}

// intruders are what somebody in a target creates under the name of a copy.
func (w *supply) intruders(k *site, r ref) []action {
	return []action{
		w.strangely(k, "creates", r, func() { _, _ = k.create(w.notOurs(r)) }),
		w.strangely(k, "copies from another source", r, func() {
			o := w.notOurs(r)
			o.SetLabels(map[string]string{
				v1alpha1.LabelParentClusterID: "other", v1alpha1.LabelParentUID: "uid",
			})
			o.SetAnnotations(map[string]string{v1alpha1.AnnotationFollowedBy: "other"})
			_, _ = k.create(o)
		}),
	}
}

// meddling is what somebody in a target does with an object that exists.
func (w *supply) meddling(k *site, r ref, now client.Object) []action {
	var all []action
	if r.kind == kindService || r.kind == kindIngress || r.kind == kindSlice {
		all = append(all, w.restored(k, r)) // They are made again.
	} else {
		all = append(all, w.strangely(k, "deletes", r, func() { _ = k.delete(r, &client.DeleteOptions{}) }))
	}
	if len(now.GetLabels()) == 0 {
		return all
	}
	annotated := func(annotations map[string]string) func() {
		return func() {
			own := copyOf(now)
			own.SetAnnotations(annotations)
			k.put(own)
		}
	}
	unmarked := maps.Clone(now.GetAnnotations())
	delete(unmarked, v1alpha1.AnnotationFollowedBy)
	return append(all, w.owning(k, r, now),
		w.unmarking(k, "takes off the annotations of", r, annotated(nil)),
		w.unmarking(k, "takes off the mark of", r, annotated(unmarked)))
}

// owning is the action by which somebody in a target makes a copy their own.
func (w *supply) owning(k *site, r ref, now client.Object) action {
	return w.strangely(k, "makes their own", r, func() {
		own := copyOf(now)
		own.SetLabels(nil)
		k.put(own)
	})
}

// races are copies that somebody makes their own while a request to change or delete them is under way.
func (w *supply) races() []action {
	var all []action
	for _, c := range w.underWay() {
		for _, k := range w.sites {
			now := k.objects[c.about]
			if k.cluster == c.to && !c.served && c.verb != "get" && now != nil && len(now.GetLabels()) > 0 {
				all = append(all, w.owning(k, c.about, now))
			}
		}
	}
	return all
}

// unmarking is an action that takes the annotation followed-by off a copy. Where no policy holds, the source goes on to
// look after the copy, and marks it when it writes it next. A claim is seldom written.
func (w *supply) unmarking(k *site, what string, r ref, do func()) action {
	if k.guarded || r == claimRef() {
		return w.strangely(k, what, r, do)
	}
	return action{label: fmt.Sprintf("somebody %s %s in %s", what, r.Name, k.name), do: do}
}

// notOurs returns an object of somebody else.
func (w *supply) notOurs(r ref) client.Object {
	switch {
	case r == claimRef():
		return newClaim()
	case r.kind == kindService:
		return w.newService(false)
	case r.kind == kindIngress:
		return w.newIngress()
	}
	return w.object(r.Name, false)
}

// ends are watches that end.
func (w *supply) ends() []action {
	var all []action
	for _, s := range w.streams() {
		all = append(
			all,
			action{label: s.name + " ends", do: func() { s.end(false) }},
			action{label: s.name + " ends, and it lists", do: func() { s.end(true) }},
		)
	}
	return all
}

// crashes are managers that end and begin.
func (w *supply) crashes() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	if w.manager.alive() {
		add("the source's manager crashes", func() { w.manager.crash(errCrash) })
	} else {
		add("the source's manager starts", func() {
			w.pass(leaseDuration)
			w.startSupplier()
		})
	}
	for _, k := range w.sites {
		if k.collector.alive() {
			add(k.name+"'s manager crashes", func() { k.collector.crash(errCrash) })
		} else {
			add(k.name+"'s manager starts", func() { w.startCollector(k) })
		}
	}
	return all
}

// outages are targets that are cut off and return.
func (w *supply) outages() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	for _, k := range w.sites {
		e := w.manager.engaged[k]
		switch {
		case !k.cut:
			add(k.name+" is cut off", func() { k.cut = true })
		default:
			add(k.name+" returns", func() { k.cut = false })
		}
		if k.cut && w.manager.alive() && e != nil && e.target.Reachable() {
			add(k.name+" is lost", func() { w.manager.lose(k) })
		}
	}
	return all
}

// engagements are what package connect/target does when a target answers again.
func (w *supply) engagements() []action {
	var all []action
	for _, k := range w.sites {
		if w.canEngage(k) {
			all = append(all, action{label: k.name + " is engaged anew", do: func() { w.manager.engage(k) }})
		}
	}
	return all
}

func (w *supply) canEngage(k *site) bool {
	e := w.manager.engaged[k]
	return w.manager.alive() && !k.cut && (e == nil || !e.target.Reachable())
}

// setBacks are targets that are set back. The source and the target's manager notice that at once, and begin anew.
func (w *supply) setBacks() []action {
	var all []action
	for _, k := range w.sites {
		for _, by := range []int{2, 5, 12} {
			if by < k.version && !k.cut && w.manager.alive() {
				label := fmt.Sprintf("%s is set back by %d changes", k.name, by)
				all = append(all, action{label: label, do: func() { w.setBack(k, by) }})
			}
		}
	}
	return all
}

func (w *supply) setBack(k *site, by int) {
	k.restore(k.version - by)
	k.collector.crash(errCrash)
	w.mu.Lock()
	w.late = slices.DeleteFunc(w.late, func(c *call) bool { return c.to == k.cluster })
	w.mu.Unlock()
	for _, c := range w.underWay() {
		if c.to == k.cluster {
			c.served, c.err = true, errTurnedBack
			w.answer(c)
		}
	}
	for _, s := range slices.Clone(k.open()) {
		s.end(true)
	}
	if e := w.manager.engaged[k]; e != nil {
		w.manager.lose(k)
		e.end()
		delete(w.manager.engaged, k)
	}
	w.rest()
	w.startCollector(k)
	w.manager.engage(k)
}

// heal repairs everything, and lets time pass until everything is as it must be.
func (w *supply) heal() {
	w.trace = append(w.trace, healed)
	for _, k := range w.sites {
		k.cut = false
		if !k.collector.alive() {
			w.startCollector(k)
		}
	}
	if !w.manager.alive() {
		w.pass(leaseDuration)
		w.startSupplier()
	}
	for _, k := range w.sites {
		if w.canEngage(k) {
			w.manager.engage(k)
		}
	}
	w.rest()
	var err error
	turns := rand.New(rand.NewPCG(1, 2))
	for range 120 {
		w.goAhead(2000, turns)
		if err = w.unsettled(); err == nil || w.failed() != nil {
			return
		}
		w.trace = append(w.trace, "time passes")
		w.pass(healing)
	}
	w.violate("nothing changes any more: %v", err)
}

// goAhead does what goes on by itself, at most so many steps of it. Each part gets its turn: two that undo what the
// other does must not keep a third from what ends this. The turns are drawn, because parts take turns themselves: pods
// try one target after the other.
func (w *supply) goAhead(steps int, turns *rand.Rand) {
	for range steps {
		all := w.progress()
		if len(all) == 0 || w.failed() != nil {
			return
		}
		w.do(all[turns.IntN(len(all))])
	}
}
