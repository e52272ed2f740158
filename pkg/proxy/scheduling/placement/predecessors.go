package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Predecessor returns a target that is not lost, and in which the delegate of an earlier proxy of the same name may
// run, or nil. The proxy waits for its end: a StatefulSet, and whoever else uses a name again, wants one pod of it at
// a time. TakeNext returns the proxy when it is time to ask again.
//
// A bound proxy needs no such rule: it keeps its name until its delegate has ended. If somebody deletes it by force,
// the next pod does not wait, as in one cluster: see Released.
func (d *Delegates) Predecessor(key types.NamespacedName, proxy types.UID) *Target {
	d.mu.RLock()
	named := d.byName[key]
	alone := len(named) == 0 || len(named) == 1 && named[0] == proxy
	d.mu.RUnlock()
	if alone {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range d.byName[key] {
		if other == proxy {
			continue
		}
		if t := d.byProxy[other].mayRun(); t != nil {
			d.waits[key] = proxy
			return t
		}
	}
	return nil
}

// Follows says whether the target's cache shows a PodChaperon of an earlier proxy of the same name.
func (d *Delegates) Follows(t *Target, key types.NamespacedName, proxy types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.byName[key], func(other types.UID) bool {
		return other != proxy && d.byProxy[other].chaperons[t] != nil
	})
}

// Released notes that a proxy that was bound is gone. If its delegate still runs, somebody deleted it by force, and so
// says that the next pod of its name need not wait. But a pod that is deleted when it is bound may go like this, too,
// although nobody used force.
func (d *Delegates) Released(proxy *corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byProxy[proxy.UID]; ok {
		known.released, known.forced = true, !translate.DeletedWhenBound(proxy)
	}
}

// TakeNext returns the proxy that waits for the end of others of its name, or an empty UID, and forgets that it waits.
func (d *Delegates) TakeNext(key types.NamespacedName) types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := d.waits[key]
	delete(d.waits, key)
	return next
}

// mayRun returns a target that is not lost, and in which the delegate of a proxy may run, or nil.
func (known *record) mayRun() *Target {
	if known.forced {
		return nil
	}
	for t, chaperon := range known.chaperons {
		if !t.Lost() && !Finished(chaperon) && (known.living(chaperon) || known.ending(chaperon)) {
			return t
		}
	}
	if known.waiter != nil && !known.waiter.target.Lost() {
		return known.waiter.target
	}
	return known.doubtful()
}

// name notes the name of a proxy. It must be called with the lock held.
func (d *Delegates) name(proxy types.UID, known *record, key types.NamespacedName) {
	if known.key == key || key.Name == "" {
		return
	}
	d.forgetName(proxy, known)
	known.key = key
	d.byName[key] = append(d.byName[key], proxy)
}

// forgetName forgets the name of a proxy. It must be called with the lock held.
func (d *Delegates) forgetName(proxy types.UID, known *record) {
	others := slices.DeleteFunc(d.byName[known.key], func(other types.UID) bool { return other == proxy })
	if len(others) == 0 {
		delete(d.byName, known.key)
		return
	}
	d.byName[known.key] = others
}
