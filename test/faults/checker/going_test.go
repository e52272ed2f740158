package checker

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestWhoMayEvictAPod(t *testing.T) {
	goes := func(h *History, change ...func(*corev1.Pod)) {
		change = append(change, on("admiralty-c2"), owned("StatefulSet"), patient)
		h.Proxy(pod("p", change...))
		h.Proxy(pod("p", append(change, deleting)...))
	}
	check(t, map[string]history{
		"somebody drains its node": {happens: func(h *History, c *clock) {
			h.Drains("c2", true)
			goes(h, evicted(evictedByRequest, c.at))
		}},
		"somebody drained its node, and it is seen later": {happens: func(h *History, c *clock) {
			h.Drains("c2", true)
			at := c.at
			h.Drains("c2", false)
			c.at = c.at.Add(drainLags + time.Minute)
			goes(h, evicted(evictedByRequest, at))
		}},
		"nobody drains its node": {happens: func(h *History, c *clock) {
			goes(h, evicted(evictedByRequest, c.at))
		}, want: NoneLost},
		"somebody drains another node": {happens: func(h *History, c *clock) {
			h.Drains("c1", true)
			goes(h, evicted(evictedByRequest, c.at))
		}, want: NoneLost},
		"its node has a taint, and nothing was broken": {happens: func(h *History, c *clock) {
			goes(h, evicted(evictedByTaint, c.at))
		}, want: NoneLost},
		"its target was away for a moment": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter - 2*time.Second)
			h.Away("c2", false)
			c.at = c.at.Add(time.Minute)
			goes(h, evicted(evictedByTaint, c.at))
		}, want: NoneLost},
		"its target is lost for a moment": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter + 8*time.Second)
			goes(h, evicted(evictedByTaint, c.at))
		}, want: NoneLost},
		"its target is lost for longer than it tolerates": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter + 10*time.Second)
			goes(h, evicted(evictedByTaint, c.at))
		}},
		"its target was lost, and it is seen later": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter + 10*time.Second)
			at := c.at
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			goes(h, evicted(evictedByTaint, at))
		}},
		"the target evicted its delegate": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", evicted(evictedByTaint, c.at)))
			h.Delegate("c2", "p", pod("d"))
			h.DelegateGone("d")
			goes(h)
		}},
		"something asked the target to evict its delegate": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d", evicted(evictedByRequest, c.at)))
			goes(h)
		}, want: NoneLost},
		"its node is gone": {happens: func(h *History, c *clock) {
			goes(h, evicted(evictedByCollector, c.at))
		}, want: NoneLost},
		"its node is gone, and the source was silent": {happens: func(h *History, c *clock) {
			h.Silent(true)
			goes(h, evicted(evictedByCollector, c.at))
		}},
		"it went unseen, and its node was drained": {happens: func(h *History, _ *clock) {
			h.Drains("c2", true)
			p := pod("p", on("admiralty-c2"), owned("StatefulSet"))
			h.Proxy(p)
			h.ProxyGone(p)
		}},
	})
}

func TestAVirtualNodeIsReadyUnlessItsTargetIsLost(t *testing.T) {
	check(t, map[string]history{
		"it is Ready": {happens: func(h *History, _ *clock) { h.Node("c2", corev1.ConditionTrue) }},
		"nothing is broken": {happens: func(h *History, _ *clock) {
			h.Node("c2", corev1.ConditionFalse)
		}, want: StaysReady},
		"the target is away for a moment": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter - time.Second)
			h.Away("c2", false)
			c.at = c.at.Add(time.Minute)
			h.Node("c2", corev1.ConditionFalse)
		}, want: StaysReady},
		"the target is lost": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter)
			h.Node("c2", corev1.ConditionFalse)
		}},
		"another target is lost": {happens: func(h *History, c *clock) {
			h.Away("c1", true)
			c.at = c.at.Add(time.Minute)
			h.Node("c2", corev1.ConditionFalse)
		}, want: StaysReady},
		"the source is silent, and the node not Ready": {happens: func(h *History, _ *clock) {
			h.Silent(true)
			h.Node("c2", corev1.ConditionFalse)
		}, want: StaysReady},
		"the source is silent for a moment, and nobody knows": {happens: func(h *History, c *clock) {
			h.Silent(true)
			h.Silent(false)
			c.at = c.at.Add(unknownAfter - time.Second)
			h.Node("c2", corev1.ConditionUnknown)
		}, want: StaysReady},
		"the source is silent for long, and nobody knows": {happens: func(h *History, c *clock) {
			h.Silent(true)
			c.at = c.at.Add(unknownAfter)
			h.Node("c2", corev1.ConditionUnknown)
		}},
		"nothing is broken, and nobody knows": {happens: func(h *History, _ *clock) {
			h.Node("c2", corev1.ConditionUnknown)
		}, want: StaysReady},
		"nobody knows of the source's own node either": {happens: func(h *History, c *clock) {
			h.OwnNode(corev1.ConditionUnknown)
			h.OwnNode(corev1.ConditionUnknown)
			h.Node("c2", corev1.ConditionUnknown)
			h.OwnNode(corev1.ConditionTrue)
			c.at = c.at.Add(excusedFor)
			h.Node("c2", corev1.ConditionUnknown)
		}},
		"the source's own node was Unknown long ago": {happens: func(h *History, c *clock) {
			h.OwnNode(corev1.ConditionUnknown)
			h.OwnNode(corev1.ConditionTrue)
			c.at = c.at.Add(excusedFor + time.Second)
			h.Node("c2", corev1.ConditionUnknown)
		}, want: StaysReady},
		"the source's own node is Unknown, and the virtual node not Ready": {happens: func(h *History, _ *clock) {
			h.OwnNode(corev1.ConditionUnknown)
			h.Node("c2", corev1.ConditionFalse)
		}, want: StaysReady},
		"the target is away, and nobody knows": {happens: func(h *History, _ *clock) {
			h.Away("c2", true)
			h.Node("c2", corev1.ConditionUnknown)
		}},
		"the target refuses the source": {happens: func(h *History, _ *clock) {
			h.Refuses("c2", true)
			h.Node("c2", corev1.ConditionUnknown)
		}},
		"the target refuses the source, and its node is not Ready": {happens: func(h *History, c *clock) {
			h.Refuses("c2", true)
			c.at = c.at.Add(time.Minute)
			h.Node("c2", corev1.ConditionFalse)
		}, want: StaysReady},
		"another target refuses the source": {happens: func(h *History, _ *clock) {
			h.Refuses("c1", true)
			h.Node("c2", corev1.ConditionUnknown)
		}, want: StaysReady},
		"the checker cannot see the target": {happens: func(h *History, c *clock) {
			h.Blurs("c2", true)
			c.at = c.at.Add(time.Minute)
			h.Node("c2", corev1.ConditionUnknown)
		}, want: StaysReady},
		"another target was set back": {happens: func(h *History, c *clock) {
			h.SetBack("c1", false, c.at)
			h.Node("c2", corev1.ConditionUnknown)
		}, want: StaysReady},
		"the source was set back": {happens: func(h *History, c *clock) {
			h.SetBack("c1", true, c.at)
			h.Node("c2", corev1.ConditionUnknown)
		}},
	})
}

func TestWhyAPodGoes(t *testing.T) {
	first := func(change ...func(*corev1.Pod)) *corev1.Pod {
		return pod("p", append(change, on("admiralty-c2"), owned("StatefulSet"))...)
	}
	check(t, map[string]history{
		"the first pod of a StatefulSet, by itself": {happens: func(h *History, _ *clock) {
			h.Proxy(first())
			h.Proxy(first(deleting))
		}, want: NoneLost},
		"the same, and nobody saw that its deletion began": {happens: func(h *History, _ *clock) {
			h.Proxy(first())
			h.ProxyGone(first())
		}, want: NoneLost},
		"the third pod of a StatefulSet, which may be scaled": {happens: func(h *History, _ *clock) {
			third := first(deleting)
			third.Name = "db-2"
			h.Proxy(third)
		}},
		"the pod of a Deployment that nobody scales": {happens: func(h *History, _ *clock) {
			p := pod("p", on("admiralty-c2"), owned("ReplicaSet"), deleting)
			p.Annotations = map[string]string{Steady: "the test"}
			h.Proxy(p)
		}, want: NoneLost},
		"the pod of another Deployment": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", on("admiralty-c2"), owned("ReplicaSet"), deleting))
		}},
		"somebody deleted it": {happens: func(h *History, _ *clock) {
			h.Allow("p", Deleted)
			h.Proxy(first(deleting))
		}},
		"somebody deleted its delegate": {happens: func(h *History, _ *clock) {
			h.Proxy(first())
			h.Allow("p", DelegateDeleted)
			h.Proxy(first(deleting))
		}},
		"its target is away": {happens: func(h *History, _ *clock) {
			h.Away("c2", true)
			h.Proxy(first(deleting))
		}, want: NoneLost},
		"another target is away": {happens: func(h *History, _ *clock) {
			h.Away("c1", true)
			h.Proxy(first(deleting, fencedPod))
		}, want: NoneLost},
		"the source is silent": {happens: func(h *History, _ *clock) {
			h.Silent(true)
			h.Proxy(first(deleting))
		}, want: NoneLost},
		"it is fenced, and the source was silent until now": {happens: func(h *History, c *clock) {
			h.Silent(true)
			h.Silent(false)
			c.at = c.at.Add(excusedFor)
			h.Proxy(first(deleting, fencedPod))
		}},
		"it is fenced, and the source was silent long ago": {happens: func(h *History, c *clock) {
			h.Silent(true)
			h.Silent(false)
			c.at = c.at.Add(excusedFor + time.Second)
			h.Proxy(first(deleting, fencedPod))
		}, want: NoneLost},
		"it is fenced, and the source was silent before all was at rest": {happens: func(h *History, _ *clock) {
			h.Silent(true)
			h.Silent(false)
			h.Ends()
			h.Proxy(first(deleting, fencedPod))
		}, want: NoneLost},
		"it is fenced, and the source was silent for less than the fence": {happens: func(h *History, c *clock) {
			h.Silent(true)
			c.at = c.at.Add(time.Minute - fenceEarly - time.Second)
			h.Proxy(first(deleting, fencedPod))
		}, want: NoneLost},
		"it is fenced, and its target was away for almost the fence": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(time.Minute - fenceEarly)
			h.Proxy(first(deleting, fencedPod))
		}},
		"it is fenced, and its delegate was asked to end too early": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			h.Delegate("c2", "p", pod("d", endsAt(c.at.Add(5*time.Second), 5)))
			c.at = c.at.Add(time.Hour)
			h.Proxy(first(deleting, fencedPod))
		}, want: NoneLost},
		"it is fenced, its delegate ended in time, and this is seen later": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			h.Delegate("c2", "p", pod("d", endsAt(c.at.Add(65*time.Second), 5)))
			h.Delegate("c1", "p", pod("withdrawn", endsAt(c.at, 0)))
			c.at = c.at.Add(time.Minute)
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			h.Proxy(first(deleting, fencedPod))
		}},
		"its deletion began when its target was away": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			c.at = c.at.Add(time.Minute)
			h.Proxy(first(deleting, fencedPod))
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			h.Proxy(first(deleting, fencedPod))
			h.ProxyGone(first(deleting, fencedPod))
		}},
		"a pod that had finished when its PodChaperon was deleted": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", ended(corev1.PodSucceeded, 0)))
			h.Allow("p", DelegateDeleted)
			h.ProxyGone(pod("p"))
		}, want: NoneLost},
		"the same by force": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", ended(corev1.PodSucceeded, 0)))
			h.Allow("p", DelegateDeletedByForce)
			h.Allow("p", DelegateDeleted)
			h.ProxyGone(pod("p"))
		}, want: NoneLost},
		"the same by force, and then somebody deleted it": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", ended(corev1.PodSucceeded, 0)))
			h.Allow("p", DelegateDeletedByForce)
			h.Allow("p", Deleted)
			h.ProxyGone(pod("p"))
		}},
		"the same, and then somebody deleted it": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p", ended(corev1.PodSucceeded, 0)))
			h.Allow("p", DelegateDeleted)
			h.Allow("p", Deleted)
			h.ProxyGone(pod("p"))
		}},
		"a pod that had not finished when its PodChaperon was deleted": {happens: func(h *History, _ *clock) {
			h.Proxy(pod("p"))
			h.Allow("p", DelegateDeleted)
			h.Proxy(pod("p", ended(corev1.PodFailed, 143)))
			h.ProxyGone(pod("p"))
		}},
	})
}
