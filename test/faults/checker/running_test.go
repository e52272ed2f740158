package checker

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestDelegatesThatTheWatchNamesLate(t *testing.T) {
	look := func(h *History, c *clock, uids ...types.UID) {
		running := map[types.UID]bool{}
		for _, uid := range uids {
			running[uid] = true
		}
		h.Running(running)
		c.at = c.at.Add(time.Second)
	}
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
		}},
		"one runs in a gap of the other": {happens: func(h *History, c *clock) {
			look(h, c, "d1")
			look(h, c, "d2")
			look(h, c, "d1")
			h.Delegate("c1", "p", pod("d1"))
			h.Delegate("c2", "p", pod("d2"))
		}},
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
			look(h, c, "d1", "d2")
			look(h, c, "d2")
			begun := c.at
			h.Away("c2", false)
			c.at = c.at.Add(time.Hour)
			h.Delegate("c1", "p", pod("d1", made(begun)))
		}},
	})
}
