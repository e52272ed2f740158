package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const queueGate = "placement/queue"

// holds are a cluster's own reasons to keep pods back although nodes have room: a quota, or a queue. Each is about the
// CPUs that pods request together. If it is 0, there is none.
type holds struct {
	store        *store
	quota, queue int64
	news         chan struct{} // has room for one

	mu    sync.Mutex // guards the fields below
	used  int64
	gated map[types.UID]*corev1.Pod
}

// holdBack makes a cluster keep pods back until ctx ends. It must be called before there are pods.
func holdBack(ctx context.Context, s *store, c *cluster) *holds {
	h := &holds{
		store: s, quota: c.quota, queue: c.queue, news: make(chan struct{}, 1), gated: map[types.UID]*corev1.Pod{},
	}
	s.admits = h.admit
	s.watch(h.changed)
	go h.run(ctx)
	return h
}

func cpusOf(pod *corev1.Pod) int64 {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	return requests.Cpu().MilliValue()
}

func (h *holds) admit(o client.Object) error {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quota > 0 && h.used+cpusOf(pod) > h.quota {
		return apierrors.NewForbidden(resourceOf(refOf(pod)), pod.Name, errors.New("exceeded quota: cpus"))
	}
	if h.queue > 0 {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: queueGate}}
		setScheduled(pod, corev1.PodCondition{Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated})
	}
	return nil
}

// counts says how many CPUs a pod takes of the quota, or of the queue's. Pods behind gates take none.
func counts(pod *corev1.Pod) int64 {
	if pod == nil || finished(pod) || len(pod.Spec.SchedulingGates) > 0 {
		return 0
	}
	return cpusOf(pod)
}

func (h *holds) changed(c change) {
	before, was := c.before.(*corev1.Pod)
	after, is := c.after.(*corev1.Pod)
	if !was && !is {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used += counts(after) - counts(before)
	if is && len(after.Spec.SchedulingGates) > 0 {
		h.gated[after.UID] = after
	} else if was {
		delete(h.gated, before.UID)
	}
	notify(h.news)
}

// room says whether a pod would be let through now.
func (h *holds) room(pod *corev1.Pod) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	limit := cmp.Or(h.quota, h.queue)
	return limit == 0 || h.used+cpusOf(pod) <= limit
}

// run lets the first pods behind gates through when there is room for them.
func (h *holds) run(ctx context.Context) {
	for {
		select {
		case <-h.news:
		case <-ctx.Done():
			return
		}
		for pod := h.first(); pod != nil && h.room(pod); pod = h.first() {
			if !pause(ctx, requestTime) {
				return
			}
			_, err := h.store.update(refOf(pod), func(o client.Object) bool {
				now, ok := o.(*corev1.Pod)
				if !ok || now.UID != pod.UID {
					return false
				}
				now.Spec.SchedulingGates, now.Status.Conditions = nil, nil
				return true
			})
			if err != nil {
				pause(ctx, time.Second) // It is gone.
			}
		}
	}
}

func (h *holds) first() *corev1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pods []*corev1.Pod
	for _, pod := range h.gated {
		pods = append(pods, pod)
	}
	if len(pods) == 0 {
		return nil
	}
	return slices.MinFunc(pods, compare)
}
