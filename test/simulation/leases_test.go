package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

var leaseKey = types.NamespacedName{Namespace: namespace, Name: "source"}

// TestOneSourceActsAtATimeWhateverGoesWrong has a source, and perhaps a copy of it, that compete for a target.
func TestOneSourceActsAtATimeWhateverGoesWrong(t *testing.T) {
	each(t, func(t *testing.T, seed uint64) {
		t.Helper()
		trace, failed := compete(t, func(c *contest) { c.randomly(seed) })
		report(t, seed, trace, failed, func(steps []string) ([]string, error) {
			return compete(t, func(c *contest) { c.repeat(steps) })
		})
	})
}

func TestARunOfLeasesIsRepeatable(t *testing.T) {
	repeatable(t, 2, func(seed uint64) []string {
		steps, _ := compete(t, func(c *contest) { c.randomly(seed) })
		return steps
	}, func(steps []string) []string {
		again, _ := compete(t, func(c *contest) { c.repeat(steps) })
		return again
	})
}

// compete does steps, and then repairs everything.
func compete(t *testing.T, steps func(c *contest)) (trace []string, failed error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		c := newContest()
		c.rest()
		steps(c)
		if c.failed() == nil {
			c.heal()
		}
		for _, s := range c.sources {
			s.crash()
		}
		synctest.Wait()
		trace, failed = c.trace, c.failed()
	})
	return trace, failed
}

// contest is a target whose Lease sources compete for.
type contest struct {
	*network

	target *cluster
	// sources are the source, and its copy if there is one.
	sources []*holder
	// past are the Leases of the past, to which the target may be set back.
	past []client.Object
	// back is when the target was set back the last time.
	back time.Time
	// wary says that sources take the target for slow.
	wary bool
	// healing says that whatever a user has to accept is accepted.
	healing bool
	written int
}

// holder is a source cluster with its replicas. The fields are what its etcd has, and so what a copy has, too, or they
// belong to the replica that leads.
type holder struct {
	contest *contest
	name    string
	clock   skewed
	// next is the holder that the last leader left behind. epoch is the one in the target's status.
	next            string
	epoch, accepted int64

	leader *process
	// leads is the leader, and standby is the next one, which watches.
	leads, standby *hold.Process
	// held is the right of the leader. crashed is when the last leader ended.
	held    *hold.Hold
	crashed time.Time
}

// skewed is a clock that is wrong.
type skewed struct {
	clock.RealClock

	by, late time.Duration
}

// NewTimer lets the timers of the copy never end at the same instant as those of the source.
func (s skewed) NewTimer(d time.Duration) clock.Timer { return s.RealClock.NewTimer(d + s.late) }

func (s skewed) Now() time.Time                              { return s.RealClock.Now().Add(s.by) }
func (s skewed) Since(since time.Time) time.Duration         { return s.Now().Sub(since) }
func (h *holder) NextHolder(context.Context) (string, error) { return h.next, nil }
func (h *holder) SetNextHolder(_ context.Context, next string) error {
	h.next = next
	return nil
}

func newContest() *contest {
	c := &contest{network: &network{}, target: newCluster("c1")}
	c.target.changed = func(_ *cluster, now change) { c.past = append(c.past, now.after) }
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseKey.Namespace, Name: leaseKey.Name}}
	_, _ = c.target.create(lease)
	source := &holder{contest: c, name: "the source"}
	source.standby = source.replica()
	c.sources = []*holder{source}
	source.lead()
	return c
}

func (h *holder) replica() *hold.Process {
	return hold.New(hold.Options{ClusterID: sourceID, Name: h.name, Clock: h.clock, OwnLease: h})
}

// lead makes the standby replica the leader, and starts another standby replica.
func (h *holder) lead() {
	h.leader = h.contest.newProcess(h.name+"'s leader", nil)
	h.leads, h.standby = h.standby, h.replica()
	h.leads.Lead()
	p, leads := h.leader, h.leads
	h.contest.start(p.name, func() { h.keep(p, leads) })
}

// keep is what package connect/target does: it takes the Lease, and tries again when it was lost.
func (h *holder) keep(p *process, leads *hold.Process) {
	l := leaseClient{link: &link{process: p, to: h.contest.target}}
	for p.alive() {
		h.contest.mu.Lock()
		request := hold.Request{
			Target: leaseKey, Client: l, Lease: leaseKey, Remembered: h.epoch, Accepted: h.accepted, Wary: h.wary,
		}
		h.contest.mu.Unlock()
		held, err := leads.Acquire(p.ctx, p.ctx, request)
		if err == nil {
			h.note(func() { h.held, h.epoch = held, max(h.epoch, held.Epoch()) })
			<-held.Context().Done()
			err = context.Cause(held.Context())
		}
		if back := (*hold.TurnedBackError)(nil); errors.As(err, &back) {
			h.note(func() {
				h.epoch = max(h.epoch, back.Remembered)
				if h.contest.healing {
					h.accepted = h.epoch
				}
			})
		}
		select {
		case <-time.After(timeouts.Health + h.clock.late): // the bubble's time
		case <-p.ctx.Done():
		}
	}
}

func (h *holder) wary() bool {
	h.contest.mu.Lock()
	defer h.contest.mu.Unlock()
	return h.contest.wary
}

func (h *holder) note(what func()) {
	h.contest.mu.Lock()
	defer h.contest.mu.Unlock()
	what()
}

// crash ends the leader.
func (h *holder) crash() {
	h.leader.crash(errCrash)
	h.crashed = time.Now()
}

// stop ends the leader in good order, so that the next one need not wait.
func (h *holder) stop() {
	h.contest.start(h.name+" stops", func() {
		ctx, cancel := context.WithTimeout(h.leader.ctx, timeouts.HoldRenewal)
		defer cancel()
		if h.leads.Stop(ctx) == nil && h.held != nil {
			h.held.Release(ctx, true)
		}
		h.leader.crash(errCrash)
	})
}

// leaseClient reads the Lease from the API server, and replaces it.
type leaseClient struct{ *link }

// Get reads from the API server.
func (l leaseClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return live{link: l.link}.Get(ctx, key, o)
}

// Update replaces the Lease, if it is of the same version.
func (l leaseClient) Update(ctx context.Context, o client.Object, _ ...client.UpdateOption) error {
	wanted, r := copyOf(o), refOf(o)
	updated, err := l.do(ctx, "update", o, r.NamespacedName, func() (client.Object, error) {
		now, err := l.to.get(r)
		switch {
		case err != nil:
			return nil, err
		case now.GetResourceVersion() != wanted.GetResourceVersion():
			return nil, conflict(r, "resourceVersion")
		}
		l.to.put(copyOf(wanted))
		return l.to.get(r)
	})
	if err != nil {
		return err
	}
	return assign(o, updated)
}

// rest waits, and checks that there is one holder at most. A target that was set back may not know its holder. Until
// this one notices, or its right ends, another one may act, too.
func (c *contest) rest() {
	c.giveUp()
	var acting []string
	for _, s := range c.sources {
		if s.acts() {
			acting = append(acting, s.name)
		}
	}
	if len(acting) > 1 && time.Since(c.back) > timeouts.HoldEndsWary {
		c.violate("%s act at once", strings.Join(acting, " and "))
	}
}

func (h *holder) acts() bool { return h.held != nil && h.held.Context().Err() == nil }

func (c *contest) do(a action) {
	c.trace = append(c.trace, a.label)
	time.Sleep(time.Nanosecond) //nolint:forbidigo // The bubble's time. No two timers end at the same instant.
	a.do()
	c.rest()
}

func (c *contest) randomly(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := []func() []action{
		c.progress, c.progress, c.progress, c.progress, c.faults, c.times, c.times, c.events, c.writes,
	}
	for range stepsOfARun {
		if c.failed() != nil {
			return
		}
		if random.IntN(8) == 0 {
			c.run(random.IntN(20))
		} else if possible := kinds[random.IntN(len(kinds))](); len(possible) > 0 {
			c.do(possible[random.IntN(len(possible))])
		}
	}
}

func (c *contest) repeat(labels []string) {
	for _, label := range labels {
		for _, kind := range []func() []action{c.progress, c.faults, c.times, c.events, c.writes} {
			all := kind()
			i := slices.IndexFunc(all, func(a action) bool { return a.label == label })
			if i >= 0 && c.failed() == nil {
				c.do(all[i])
				break
			}
		}
	}
}

// run is a time without faults.
func (c *contest) run(steps int) {
	for i := range steps {
		if all := c.progress(); len(all) > 0 {
			c.do(all[i%len(all)])
			continue
		}
		c.do(action{label: "1s pass", do: func() { c.sleep(time.Second) }})
	}
}

// progress is what goes on if nothing goes wrong.
func (c *contest) progress() []action {
	var all []action
	for _, under := range c.underWay() {
		all = append(all, action{label: under.label, do: func() { under.serve(); c.answer(under) }})
	}
	return all
}

func (c *contest) faults() []action {
	return slices.Concat(c.failures(), c.delays(func(*process, *cluster) bool { return false }))
}

func (c *contest) times() []action {
	var all []action
	for _, d := range []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 11 * time.Second, 16 * time.Second, 5 * time.Minute,
	} {
		all = append(all, action{label: d.String() + " pass", do: func() { c.sleep(d) }})
	}
	return all
}

// events are leaders that end and begin, replicas that watch, a copy, and a target that is set back.
func (c *contest) events() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	for _, s := range c.sources {
		if s.leader.alive() {
			add(s.name+"'s leader crashes", s.crash)
			add(s.name+"'s leader stops", s.stop)
		} else {
			add(s.name+"'s next leader begins", func() {
				c.sleep(max(0, timeouts.LeaseDuration-time.Since(s.crashed)))
				s.lead()
			})
		}
		add(s.name+"'s standby replica sees the Lease", func() { s.standby.Watch(leaseKey, c.lease()) })
	}
	if len(c.sources) == 1 {
		for _, by := range []time.Duration{0, time.Hour, -time.Hour} {
			add(fmt.Sprintf("a copy of the source starts, %s ahead", by), func() { c.copy(by) })
		}
	}
	add("the target becomes slow, or is slow no more", c.becomeSlow)
	if n := len(c.past); n > 1 {
		add("the target is set back by one change", func() { c.setBack(n - 2) })
		add("the target is set back to the beginning", func() { c.setBack(0) })
	}
	return all
}

func (c *contest) becomeSlow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wary = !c.wary
}

func (c *contest) lease() *coordinationv1.Lease {
	lease, _ := c.target.objects[ref{"Lease", leaseKey}].(*coordinationv1.Lease)
	return lease
}

// copy starts a copy of the source as it is now.
func (c *contest) copy(by time.Duration) {
	s := &holder{contest: c, name: "the copy", clock: skewed{by: by, late: time.Microsecond}}
	c.mu.Lock()
	s.next, s.epoch, s.accepted = c.sources[0].next, c.sources[0].epoch, c.sources[0].accepted
	c.mu.Unlock()
	s.standby = s.replica()
	c.sources = append(c.sources, s)
	s.lead()
}

// setBack restores the target's etcd. The API server gives other resource versions then.
func (c *contest) setBack(to int) {
	c.back = time.Now()
	c.target.put(copyOf(c.past[to]))
}

// heal lets time pass until one source acts, and no other.
func (c *contest) heal() {
	c.trace = append(c.trace, healed)
	c.healing = true
	for _, s := range c.sources {
		if !s.leader.alive() {
			c.sleep(timeouts.LeaseDuration)
			s.lead()
		}
	}
	for range 1000 {
		c.run(5)
		if c.failed() != nil || slices.ContainsFunc(c.sources, (*holder).acts) {
			return
		}
	}
	c.violate("nobody takes the Lease")
}
