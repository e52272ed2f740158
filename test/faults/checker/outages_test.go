package checker

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestWhenASecondDelegateIsExcused(t *testing.T) {
	// second has the proxy placed in c2, and somewhat later, when c2 may be away, in c1.
	first := func(h *History, c *clock) {
		h.Delegate("c2", "p", pod("d2", made(c.at)))
		c.at = c.at.Add(10 * time.Second)
	}
	second := func(h *History, c *clock) {
		h.Delegate("c1", "p", pod("d1", made(c.at)))
	}
	look := func(h *History) { h.Running(map[types.UID]bool{"d1": true, "d2": true}) }
	check(t, map[string]history{
		"it is made while the first one's cluster is away": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter + time.Second)
			second(h, c)
			h.Proxy(pod("p", on("admiralty-c1")))
			look(h)
			h.Away("c2", false)
			c.at = c.at.Add(excusedFor)
			look(h)
		}},
		"it is made before the source may take the cluster for lost": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter - 2*time.Second)
			second(h, c)
			look(h)
		}, want: OnePerProxy},
		"it is made as soon as the cluster refuses the source": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Refuses("c2", true)
			second(h, c)
			look(h)
		}},
		"it is made while the checker cannot see the cluster": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Blurs("c2", true)
			c.at = c.at.Add(lostAfter + time.Second)
			second(h, c)
			look(h)
		}, want: OnePerProxy},
		"somebody deleted the first one by force": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Allow("p", DelegateDeletedByForce)
			second(h, c)
			look(h)
		}},
		"both run for long after the cluster is back": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter + time.Second)
			second(h, c)
			h.Away("c2", false)
			c.at = c.at.Add(excusedFor + time.Second)
			look(h)
		}, want: OnePerProxy},
		"it is made just after the cluster is back": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter)
			h.Away("c2", false)
			c.at = c.at.Add(madeFor)
			second(h, c)
			look(h)
		}},
		"it is made later": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c2", true)
			c.at = c.at.Add(lostAfter)
			h.Away("c2", false)
			c.at = c.at.Add(madeFor + time.Second)
			second(h, c)
			look(h)
		}, want: OnePerProxy},
		"it is made before the cluster is away": {happens: func(h *History, c *clock) {
			first(h, c)
			second(h, c)
			c.at = c.at.Add(10 * time.Second)
			h.Away("c2", true)
			look(h)
		}, want: OnePerProxy},
		"it is made after all was at rest": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			h.Away("c2", false)
			h.Ends()
			first(h, c)
			second(h, c)
			look(h)
		}, want: OnePerProxy},
		"it is made while another cluster is away": {happens: func(h *History, c *clock) {
			first(h, c)
			h.Away("c3", true)
			c.at = c.at.Add(lostAfter)
			second(h, c)
			look(h)
		}, want: OnePerProxy},
		"it is made between two outages": {happens: func(h *History, c *clock) {
			h.Away("c2", true)
			h.Away("c2", false)
			c.at = c.at.Add(madeFor + time.Second)
			first(h, c)
			second(h, c)
			c.at = c.at.Add(10 * time.Second)
			h.Away("c2", true)
			look(h)
		}, want: OnePerProxy},
	})
}

func TestHowLongAnOutageLasted(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		happens func(o *outage)
		want    time.Duration
	}{
		"none": {happens: func(*outage) {}},
		"one that goes on": {happens: func(o *outage) {
			o.change(true, at(70))
		}, want: 30 * time.Second},
		"two at once": {happens: func(o *outage) {
			o.change(true, at(10))
			o.change(true, at(20))
			o.change(false, at(30))
			o.change(false, at(40))
		}, want: 30 * time.Second},
		"two with a gap that nobody sees": {happens: func(o *outage) {
			o.change(true, at(10))
			o.change(false, at(20))
			o.change(true, at(35))
			o.change(false, at(50))
		}, want: 40 * time.Second},
		"two with a longer gap": {happens: func(o *outage) {
			o.change(true, at(10))
			o.change(false, at(20))
			o.change(true, at(36))
			o.change(false, at(50))
		}, want: 14 * time.Second},
		"one that is over for long": {happens: func(o *outage) {
			o.change(true, at(0))
			o.change(false, at(9))
		}},
	} {
		o := &outage{}
		test.happens(o)
		if got := o.lasted(at(100)); got != test.want {
			t.Errorf("%s: it lasted for %s, want %s", name, got, test.want)
		}
	}
}
