package simulation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// underWayAtMost is how long the target may still carry out a write whose right has ended: the right ends that long
// before anybody else may act. A write that was given up closes its stream, so this takes a moment.
const underWayAtMost = timeouts.HoldDuration - timeouts.HoldEnds - time.Second

// writes are those of sources that act. The right to act is that of each write, as package connect/target has it.
func (c *contest) writes() []action {
	var all []action
	for _, s := range c.sources {
		if s.acts() && s.leader.alive() {
			all = append(all, action{label: s.name + " writes to the target", do: s.write})
		}
	}
	return all
}

func (h *holder) write() {
	h.contest.written++
	o := &corev1.ConfigMap{ObjectMeta: metaOf(fmt.Sprintf("object-%d", h.contest.written))}
	l := &link{process: h.leader, to: h.contest.target, right: h.held.Context()}
	right := h.newRight(h.held)
	h.contest.start(h.name+" writes", func() {
		_, _ = l.do(l.right, "create", o, client.ObjectKeyFromObject(o), func() (client.Object, error) {
			h.contest.carryOut(h, right)
			return nil, nil //nolint:nilnil // Nobody reads the object.
		})
	})
}

// right is the right to act in a target, which has ended at some time, or not yet. The network's mutex guards it.
type right struct{ ended time.Time }

func (h *holder) newRight(held *hold.Hold) *right {
	r := &right{}
	context.AfterFunc(held.Context(), func() { h.note(func() { r.ended = time.Now() }) })
	return r
}

// carryOut checks that no other source acts when a write is carried out.
func (c *contest) carryOut(by *holder, under *right) {
	var tooLate bool
	by.note(func() { tooLate = !under.ended.IsZero() && time.Since(under.ended) > underWayAtMost })
	if tooLate || time.Since(c.back) <= timeouts.HoldEndsWary {
		return
	}
	for _, s := range c.sources {
		if s != by && s.acts() {
			c.violate("a write of %s is carried out while %s acts", by.name, s.name)
		}
	}
}
