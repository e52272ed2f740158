package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replace creates another pod, as a Deployment does, for each one that goes before it has finished: it was preempted.
func (ob *observer) replace(of side) {
	of.store.watch(func(c change) {
		pod, ok := c.before.(*corev1.Pod)
		if !ok || c.after != nil || finished(pod) {
			return
		}
		time.AfterFunc(requestTime, func() {
			next := ob.successor(pod.UID)
			if next == nil {
				return
			}
			if err := of.create(next.pod); err != nil {
				panic(err)
			}
		})
	})
}

// successor returns the pod that replaces another one, and expects it. The other one does not count any more.
func (ob *observer) successor(of types.UID) *arrival {
	ob.mu.Lock()
	o := ob.byUID[of]
	if o == nil {
		ob.mu.Unlock()
		return nil
	}
	o.preempted = true
	ob.mu.Unlock()
	next := *o.arrival
	next.pod = next.pod.DeepCopy()
	next.pod.Name += "-again"
	ob.expect(&next)
	return &next
}
