package checker

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// look finds that some pods run, and takes a second.
func look(h *History, c *clock, uids ...types.UID) {
	running := map[types.UID]bool{}
	for _, uid := range uids {
		running[uid] = true
	}
	h.Running(running)
	c.at = c.at.Add(time.Second)
}

func TestAPodRunsOnce(t *testing.T) {
	first := func(h *History, c *clock) {
		h.Delegate("c2", "p", pod("d1", made(c.at)))
		look(h, c, "d1")
	}
	second := func(h *History, c *clock) {
		h.Delegate("c1", "p", pod("d2", made(c.at)))
		look(h, c, "d2")
	}
	check(t, map[string]history{
		"a second delegate runs": {happens: func(h *History, c *clock) {
			first(h, c)
			second(h, c)
		}, want: RunsOnce},
		"only the second one ran": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d1"))
			second(h, c)
		}},
		"the first one begins again": {happens: func(h *History, c *clock) {
			first(h, c)
			look(h, c)
			first(h, c)
		}},
		"somebody deleted the first one": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Allow("p", DelegateDeleted)
			second(h, c)
		}},
		"its target evicted the first one": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Delegate("c2", "p", pod("d1", evicted(evictedByTaint, c.at)))
			second(h, c)
		}},
		"the target of the first one was lost": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter)
			second(h, c)
		}},
		"the target of the first one was away for a moment": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			second(h, c)
		}, want: RunsOnce},
		"the source was set back": {happens: func(h *History, c *clock) {
			first(h, c)
			h.SetBack("c1", true, c.at)
			second(h, c)
		}},
	})
}

func TestDelegatesThatTheWatchNamesLate(t *testing.T) {
	check(t, map[string]history{
		"a second delegate runs and ends before the watch shows it": {happens: func(h *History, c *clock) {
			h.Delegate("c1", "p", pod("d1"))
			look(h, c, "d1")
			look(h, c, "d1", "d2")
			look(h, c, "d1")
			h.Delegate("c2", "p", pod("d2"))
		}, want: OnePerProxy},
		"neither is shown before both have ended": {happens: func(h *History, c *clock) {
			look(h, c, "d1", "d2")
			look(h, c)
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "p", pod("d2"))
		}, want: OnePerProxy},
		"one runs after the other": {happens: func(h *History, c *clock) {
			look(h, c, "d1")
			look(h, c, "d2")
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "p", pod("d2"))
		}, want: RunsOnce},
		"one runs in a gap of the other": {happens: func(h *History, c *clock) {
			look(h, c, "d1")
			look(h, c, "d2")
			look(h, c, "d1")
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "p", pod("d2"))
		}, want: RunsOnce},
		"another pod runs at the same time": {happens: func(h *History, c *clock) {
			look(h, c, "d1", "d2")
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "q", pod("d2"))
		}},
		"two pods of an ordinal": {happens: func(h *History, c *clock) {
			h.Proxy(pod("p", owned("StatefulSet")))
			h.Proxy(pod("q", owned("StatefulSet")))
			h.Delegate("c1", "p", pod("d1"))
			look(h, c, "d1", "d2")
			look(h, c, "d1")
			h.Delegate("c2", "q", pod("d2"))
		}, want: OnePerOrdinal},
		"it was excused when both ran": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d2", made(c.at)))
			c.at = c.at.Add(time.Minute)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter)
			begun := c.at
			look(h, c, "d1", "d2")
			look(h, c, "d2")
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			h.Delegate("c1", "p", pod("d1", made(begun)))
		}},
	})
}

func TestAFencedPodIsReplacedWhenItHasEnded(t *testing.T) {
	const tolerates = 245
	of := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			fencedPod(p)
			p.Labels = map[string]string{"app": "alone"}
			p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, TolerationSeconds: &seconds}}
		}
	}
	// evict evicts one pod, and another one begins.
	evict := func(h *History, c *clock, seconds int64, why string) {
		h.Proxy(pod("p", on("admiralty-c2"), owned("ReplicaSet"), of(seconds)))
		h.Delegate("c2", "p", pod("d1"))
		c.at = c.at.Add(10 * time.Minute)
		h.Proxy(pod("p", on("admiralty-c2"), owned("ReplicaSet"), of(seconds), evicted(why, c.at)))
		h.Proxy(pod("q", on("admiralty-c1"), owned("ReplicaSet"), of(seconds), made(c.at)))
		h.Delegate("c1", "q", pod("d2"))
	}
	both := map[types.UID]bool{"d1": true, "d2": true}
	check(t, map[string]history{
		"both run": {happens: func(h *History, c *clock) {
			evict(h, c, tolerates, evictedByTaint)
			h.Running(both)
		}, want: OnePerFence},
		"one runs after the other": {happens: func(h *History, c *clock) {
			evict(h, c, tolerates, evictedByTaint)
			h.Running(map[types.UID]bool{"d1": true})
			h.Running(map[types.UID]bool{"d2": true})
		}},
		"both run, and it did not wait for long enough": {happens: func(h *History, c *clock) {
			evict(h, c, tolerates-1, evictedByTaint)
			h.Running(both)
		}},
		"both run, because of a drain": {happens: func(h *History, c *clock) {
			evict(h, c, tolerates, evictedByRequest)
			h.Running(both)
		}},
	})
}
