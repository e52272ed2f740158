package feedback

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func unproven(c *v1alpha1.PodChaperon) { delete(c.Annotations, v1alpha1.AnnotationProof) }

func TestAForgeryDeletesNoProxy(t *testing.T) {
	c2 := engaged(t)
	for name, test := range map[string]struct {
		change func(*v1alpha1.PodChaperon)
		want   string
	}{
		"of the proxy's name": {
			func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationParentName] = "other" },
			"its name is not the one that belongs to its pod",
		},
		"of the proxy's UID": {
			func(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelParentUID] = "other" },
			"its name is not the one that belongs to its pod",
		},
		"of the namespace": {
			func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationParentNamespace] = "other" },
			"its pod is in another namespace",
		},
		"of nothing": {func(c *v1alpha1.PodChaperon) { c.Annotations = nil }, "is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := createProxy(t, c2, "", func(pod *corev1.Pod) { pod.GenerateName = "web-" })
			c := place(t, proxy, c2)
			report(t, c, corev1.PodRunning)
			waitForPhase(t, proxy, corev1.PodRunning)
			before := c.DeepCopy()
			env.Change(t, target, c, test.change)
			env.WaitForEvent(t, source, proxy, feedback.ReasonDelegateUnclear, test.want)
			report(t, c, corev1.PodFailed) // Nobody believes it.
			waitForWorkers(t, c2)
			env.Get(t, source, proxy)
			if proxy.DeletionTimestamp != nil || proxy.Status.Phase != corev1.PodRunning {
				t.Errorf("the proxy is %s, deletion timestamp %v", proxy.Status.Phase, proxy.DeletionTimestamp)
			}
			env.Change(t, target, c, func(c *v1alpha1.PodChaperon) {
				c.Labels, c.Annotations = before.Labels, before.Annotations
			})
			waitForPhase(t, proxy, corev1.PodFailed)
		})
	}
}

func TestUnmarkedPodChaperonsOfBoundProxiesAreAccepted(t *testing.T) {
	c2 := engaged(t)
	proxy := createProxy(t, c2, "web")
	env.Bind(t, source, proxy, c2.NodeName)
	c := createChaperon(t, proxy, c2, unproven)
	report(t, c, corev1.PodRunning)
	waitForPhase(t, proxy, corev1.PodRunning)
	expectKept(t, c)
}

func TestAnUnmarkedPodChaperonWithoutAProxyEnds(t *testing.T) {
	namespace := env.Namespace(t, nil, source, target)
	vanished := env.Proxy(namespace, "vanished", func(pod *corev1.Pod) { pod.UID = "never-created" })
	c2 := newTarget(namespace, "c2")
	c := createChaperon(t, vanished, c2, unproven)
	c2.Engage(t, registry)
	waitForEnding(t, c, "")
}

func TestAPodChaperonWithoutItsTargetHashHoldsNothing(t *testing.T) {
	c2 := engaged(t)
	for name, lose := range map[string]func(*v1alpha1.PodChaperon){
		"it is gone":    func(c *v1alpha1.PodChaperon) { delete(c.Labels, v1alpha1.LabelTargetHash) },
		"it is another": func(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelTargetHash] = "before" },
	} {
		t.Run(name, func(t *testing.T) {
			proxy, c := run(t, c2, "", func(pod *corev1.Pod) { pod.GenerateName = "web-" })
			env.Change(t, target, c, lose)
			env.WaitForEvent(t, source, proxy, feedback.ReasonDelegateLabelled, c.Name)
			env.Get(t, target, c)
			env.ExpectEqual(t, "target-hash", c2.Hash, c.Labels[v1alpha1.LabelTargetHash])
			env.ExpectEqual(t, "target-id", translate.TargetID(c2.Key), c.Labels[v1alpha1.LabelTargetID])
			env.Delete(t, source, proxy)
			waitForEnding(t, c, "")
			end(t, c)
			env.WaitGone(t, source, proxy)
		})
	}
}

func TestAProxyWithoutElectWaitsForItsDelegate(t *testing.T) {
	c2 := engaged(t)
	env.Create(t, source, env.VirtualNode(c2.NodeName))
	proxy, c := run(t, c2, "web")
	env.Change(t, source, proxy, func(pod *corev1.Pod) { delete(pod.Annotations, v1alpha1.AnnotationElect) })
	env.Delete(t, source, proxy)
	waitForEnding(t, c, "")
	waitForWorkers(t, c2)
	if !env.Exists(t, source, proxy) {
		t.Error("the deletion of the proxy was confirmed while the delegate ran")
	}
	end(t, c)
	env.WaitGone(t, source, proxy)
}
