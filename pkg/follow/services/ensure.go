package services

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Ensure copies the Services whose variables (WEB_SERVICE_HOST) the pod's containers get when they start, before the
// pod goes to the target. These are the Services that select the pod, and those that go along once the target has pods
// of the namespace. It waits until each is copied or refused, for timeouts.EnsureServices at most. A pod without these
// variables is better than no pod, so there is no error.
func (f *Follower) Ensure(ctx context.Context, pod *corev1.Pod, target *engage.Target) {
	c, engaged := f.copiers.Get(target)
	if !engaged || target.Itself || !target.Reachable() || !ptr.Deref(pod.Spec.EnableServiceLinks, true) {
		return
	}
	var answers []<-chan struct{}
	for _, key := range c.lacking(pod) {
		answers = append(answers, c.await(key))
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.EnsureServices)
	defer cancel()
	for _, answer := range answers {
		select {
		case <-answer:
		case <-ctx.Done():
			log.FromContext(ctx).V(1).Info("The pod does not wait for Services any longer", "target", target.Key)
			return
		}
	}
}

// expectation is that of pods that wait for a Service.
type expectation struct {
	met   chan struct{} // closed when the Service is copied or refused
	since time.Time     // when the first of the pods began to wait
}

// lacking returns the Services that the pod expects in the target, and that are not known to be there. One that the
// target refuses, or that kept pods waiting in vain, is tried again without the pod. While the target has no
// PodChaperon of the namespace, copies of earlier ones may be about to go.
func (c *copier) lacking(pod *corev1.Pod) []types.NamespacedName {
	originals := c.follower.originals
	n, known := originals.namespaceOf(pod.Namespace)
	if n == nil || !known {
		return nil
	}
	first := !c.holds(pod.Namespace)
	var keys []types.NamespacedName
	for _, i := range itemsIn(n.services, "") {
		if c.isRefused(i) || c.isLate(i.NamespacedName) || !first && c.isEnsured(i.NamespacedName) {
			continue
		}
		from, _ := originals.service(i.NamespacedName)
		if !from.eligible() || headless(from.service) { // A headless Service has no variables.
			continue
		}
		if selects(from.service, pod) || first && (global(from.service) || from.electing(originals.isVirtual)) {
			keys = append(keys, i.NamespacedName)
		}
	}
	return keys
}

// selects says whether a Service selects a proxy.
func selects(service *corev1.Service, pod *corev1.Pod) bool {
	selector, err := userSelector(service)
	return err == nil && len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels))
}

// await lets a worker copy a Service, and returns a channel that is closed when it is copied or refused.
func (c *copier) await(key types.NamespacedName) <-chan struct{} {
	c.mu.Lock()
	expected, ok := c.expected[key]
	if !ok {
		expected = &expectation{make(chan struct{}), c.follower.options.Clock.Now()}
		c.expected[key] = expected
	}
	c.mu.Unlock()
	c.workers.Queue.Add(item{kindService, key})
	return expected.met
}

// answerTo returns a function that tells the pods that wait for a Service now to wait no longer. Those that begin to
// wait later get another answer.
func (c *copier) answerTo(key types.NamespacedName) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	expected, ok := c.expected[key]
	if !ok {
		return func() {}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.expected[key] == expected {
			delete(c.expected, key)
			close(expected.met)
		}
	}
}

// isLate says whether pods have waited for a Service until their time was up.
func (c *copier) isLate(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	expected, ok := c.expected[key]
	return ok && c.follower.options.Clock.Since(expected.since) >= timeouts.EnsureServices
}

func (c *copier) isEnsured(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ensured[key]
}

func (c *copier) noteEnsured(key types.NamespacedName, ensured bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ensured {
		c.ensured[key] = true
	} else {
		delete(c.ensured, key)
	}
}

// isRefused says whether the target refused to copy an item when it was last tried.
func (c *copier) isRefused(i item) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted[i].note != ""
}
