package checker

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatAClusterThatWasSetBackExcuses(t *testing.T) {
	// setBack has a pod made some time before or after the backup of a cluster, to which the cluster is set back later.
	setBack := func(
		h *History, c *clock, cluster string, after time.Duration, change ...func(*corev1.Pod),
	) *corev1.Pod {
		saved := c.at
		p := pod("p", append(change, made(c.at.Add(after)))...)
		if after > 0 {
			c.at = c.at.Add(after)
		}
		h.Proxy(p)
		c.at = c.at.Add(time.Minute)
		h.SetBack(cluster, cluster == "c1", saved.Add(time.Second))
		return p
	}
	check(t, map[string]history{
		"a pod that was made since goes": {happens: func(h *History, c *clock) {
			h.ProxyGone(setBack(h, c, "c2", 5*time.Second, on("admiralty-c2")))
		}},
		"a pod that was made since goes, and is in another target": {happens: func(h *History, c *clock) {
			h.ProxyGone(setBack(h, c, "c2", 5*time.Second, on("admiralty-c1")))
		}, want: NoneLost},
		"a pod that was made before goes": {happens: func(h *History, c *clock) {
			p := setBack(h, c, "c2", -time.Hour, on("admiralty-c2"))
			h.proxies["p"].bound = time.Time{} // long ago
			h.ProxyGone(p)
		}, want: NoneLost},
		"a pod that was made before, and bound since, goes": {happens: func(h *History, c *clock) {
			saved := c.at
			h.Proxy(pod("p"))
			c.at = c.at.Add(5 * time.Second)
			h.Proxy(pod("p", on("admiralty-c2")))
			h.SetBack("c2", false, saved)
			h.ProxyGone(pod("p", on("admiralty-c2")))
		}},
		"a source does not have a pod of before": {happens: func(h *History, c *clock) {
			setBack(h, c, "c1", -time.Hour, on("admiralty-c2"))
			h.proxies["p"] = &proxy{name: "db-0", node: "admiralty-c2", unseen: true}
			h.Ends()
		}, want: NoneLost},
		"a source has a pod of before": {happens: func(h *History, c *clock) {
			h.Proxy(pod("p", made(c.at.Add(-time.Hour))))
			h.Delegate("c2", "p", pod("d"))
			c.at = c.at.Add(time.Minute)
			h.SetBack("c1", true, c.at.Add(-20*time.Second))
			h.Proxy(pod("p", made(c.at.Add(-time.Hour))))
			h.Ends()
		}},
		"a source has lost a pod of before": {happens: func(h *History, c *clock) {
			h.Proxy(pod("p", made(c.at.Add(-time.Hour))))
			c.at = c.at.Add(time.Minute)
			h.SetBack("c1", true, c.at.Add(-20*time.Second))
			h.Ends()
		}, want: NoneLost},
		"a source has lost a pod that was made since": {happens: func(h *History, c *clock) {
			setBack(h, c, "c1", 5*time.Second)
			h.Ends()
		}},
		"a source has lost a pod that had gone before it was set back": {happens: func(h *History, c *clock) {
			p := pod("p", made(c.at.Add(-time.Hour)), owned("ReplicaSet"))
			h.Proxy(p)
			h.ProxyGone(p)
			h.SetBack("c1", true, c.at)
			h.Proxy(p)
			h.ProxyGone(p)
			h.Ends()
		}},
		"a source shows what the backup has": {happens: func(h *History, c *clock) {
			h.Proxy(pod("p", made(c.at.Add(-time.Hour)), ended(corev1.PodFailed, 3)))
			c.at = c.at.Add(time.Minute)
			h.SetBack("c1", true, c.at)
			h.Proxy(pod("p", made(c.at.Add(-time.Hour))))
		}},
		"a source shows a pod that had ended, and had gone": {happens: func(h *History, c *clock) {
			p := pod("p", made(c.at.Add(-time.Hour)), owned("ReplicaSet"), ended(corev1.PodSucceeded, 0))
			h.Proxy(p)
			h.ProxyGone(p)
			h.SetBack("c1", true, c.at)
			h.Proxy(pod("p", made(c.at.Add(-time.Hour)), owned("ReplicaSet")))
		}},
		"a forgotten delegate runs on beside another one": {happens: func(h *History, c *clock) {
			h.Delegate("c2", "p", pod("d2"))
			h.SetBack("c2", false, c.at)
			h.Delegate("c1", "p", pod("d1", made(c.at)))
			h.Back("c2")
			h.Running(map[types.UID]bool{"d1": true, "d2": true})
			c.at = c.at.Add(excusedFor + time.Second)
			h.Running(map[types.UID]bool{"d1": true, "d2": true})
		}, want: OnePerProxy},
		"a pod in another cluster goes before its delegate has ended": {happens: func(h *History, c *clock) {
			h.SetBack("c2", false, c.at)
			p := pod("p", on("admiralty-c1"), owned("ReplicaSet"), deleting)
			h.Proxy(p)
			h.Delegate("c1", "p", pod("d"))
			h.ProxyGone(p)
			for range looksBeforeEnd {
				h.Running(map[types.UID]bool{"d": true})
			}
		}, want: EndsFirst},
	})
}

// TestAPodThatASetBackForgotDoesNotLag has pods of a source that was set back, which none of its watches show any more.
func TestAPodThatASetBackForgotDoesNotLag(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"made since":                    made(time.Now()),
		"made since, and being deleted": deleting,
		"made before":                   made(time.Now().Add(-time.Hour)),
	} {
		h := NewHistory(time.Now)
		h.Proxy(pod("p", change))
		h.SetBack("c1", true, time.Now().Add(-time.Minute))
		if got := h.Lags(nil); got != "" {
			t.Errorf("%s: it lags by %s", name, got)
		}
	}
}

func TestAForgottenDelegateMayNotRunWhenAllIsAtRest(t *testing.T) {
	runs := map[types.UID][]int{"d": {1}}
	h := NewHistory(time.Now)
	if left := h.Leftovers(runs); len(left) != 1 {
		t.Errorf("a pod runs that no API server has shown, and left are %v", left)
	}
	h.Delegate("c2", "p", pod("d"))
	if left := h.Leftovers(runs); len(left) > 0 {
		t.Errorf("left before: %v", left)
	}
	h.SetBack("c2", false, time.Now())
	if left := h.Leftovers(runs); len(left) != 1 {
		t.Errorf("the forgotten delegate runs, and left are %v", left)
	}
	if name := h.Lags(nil); name != "" {
		t.Errorf("the cluster has forgotten %s, and the checker waits for it", name)
	}
	h.Delegate("c2", "p", pod("d"))
	if left := h.Leftovers(runs); len(left) > 0 {
		t.Errorf("the cluster has it again, and left are %v", left)
	}
	h.SetBack("c2", false, time.Now())
	h.Ends()
	if left := h.Leftovers(runs); len(left) != 1 {
		t.Errorf("the forgotten delegate runs after all was at rest, and left are %v", left)
	}
}
