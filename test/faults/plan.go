package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// plan is what happens in a round.
type plan struct {
	seed, round uint64
	steps       []step
}

// step is a fault or an operation, at a moment of the round.
type step struct {
	at, lasts time.Duration
	fault     *fault
	operation *operation
	// draws is the seed of what the step itself draws.
	draws uint64
}

func (s step) name() string {
	if s.fault != nil {
		return s.fault.name
	}
	return s.operation.name
}

const (
	roundLasts = 20 * time.Second
	// longLasts is more than it takes to notice that a target is away, and to evict its impatient pods.
	longLasts = 75 * time.Second
	// longestLasts is more than it takes until the pods of a fenced StatefulSet may run elsewhere.
	longestLasts = 280 * time.Second
	mostFaults   = 5
	mostOps      = 12
	// drainEvery is how many rounds there are for one with nothing but a drain.
	drainEvery = 8
	// setBackEvery is how many rounds there are for one in which a cluster is set back.
	setBackEvery = 8
	// amidEvery is how many rounds there are for one in which the leader of the source is killed while it places pods.
	amidEvery = 7
	// longEvery is how many rounds there are for one that lasts for longLasts.
	longEvery = 5
	// timedEvery is how many rounds there are for one whose only fault lasts for longLasts, so that times are measured.
	timedEvery = 7
	// lossEvery is after how many rounds there is one in which the target is away for the longest time. The first is
	// round lossFirst.
	lossEvery, lossFirst = 20, 12
)

// plans draws rounds. Each fault comes once before any comes again.
type plans struct {
	seed, round uint64
	short       bool
	bag         []fault
	draw        *rand.Rand
}

func newPlans(seed uint64) *plans {
	return &plans{seed: seed, draw: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // It is to be repeated.
}

// newShortPlans draws the rounds of the short form. Faults that it has to have come first.
func newShortPlans(seed uint64) *plans {
	p := newPlans(seed)
	p.short, p.bag = true, faults()
	later := func(f fault) int {
		if slices.Contains(shortFaults(), f.name) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(p.bag, func(a, b fault) int { return later(a) - later(b) })
	return p
}

func (p *plans) next() plan {
	p.round++
	drawn := plan{seed: p.seed, round: p.round}
	if p.short {
		return p.nextOfShort(drawn)
	}
	if p.round%lossEvery == lossFirst {
		return p.loss(drawn)
	}
	if p.draw.IntN(drainEvery) == 0 {
		return p.drain(drawn)
	}
	if p.draw.IntN(setBackEvery) == 0 {
		return p.setBack(drawn, []string{source, target}[p.draw.IntN(2)])
	}
	if p.draw.IntN(amidEvery) == 0 {
		return p.amid(drawn)
	}
	if p.draw.IntN(timedEvery) == 0 {
		lasting := slices.DeleteFunc(faults(), func(f fault) bool { return f.brief })
		return p.timed(drawn, lasting[p.draw.IntN(len(lasting))])
	}
	if p.draw.IntN(longEvery) == 0 {
		p.steps(&drawn, longLasts)
	} else {
		p.steps(&drawn, roundLasts)
	}
	return drawn
}

// nextOfShort draws a round of the short form. It has all kinds of rounds but the longest.
func (p *plans) nextOfShort(drawn plan) plan {
	switch p.round {
	case 1:
		return p.timed(drawn, partition())
	case 2:
		return p.setBack(drawn, source)
	case 3:
		return p.setBack(drawn, target)
	case 4:
		return p.amid(drawn)
	case 5:
		return p.drain(drawn)
	default:
		p.steps(&drawn, roundLasts)
	}
	return drawn
}

// again draws a round with nothing but the fault or operation of a name.
func (p *plans) again(name string) plan {
	p.round++
	s := step{draws: p.draw.Uint64()}
	for _, f := range append(faults(), settingBack(source), settingBack(target), killingLeader()) {
		if f.name != name {
			continue
		}
		if s.fault = &f; !f.brief {
			s.lasts = roundLasts
		}
	}
	for _, o := range append(operations(), drain()) {
		if o.name == name {
			s.operation = &o
		}
	}
	return plan{seed: p.seed, round: p.round, steps: []step{s}}
}

// drain draws a round with nothing but a drain.
func (*plans) drain(drawn plan) plan {
	o := drain()
	drawn.steps = append(drawn.steps, step{operation: &o})
	return drawn
}

// steps draws faults and operations for a time, and the more of them the longer it is. The first fault may last all of
// it.
func (p *plans) steps(drawn *plan, lasts time.Duration) {
	times := int(lasts / roundLasts)
	parts := map[string]bool{}
	for n := range times * (1 + p.draw.IntN(mostFaults)) {
		f := p.take(parts)
		if f == nil {
			break
		}
		parts[f.part] = true
		s := step{fault: f, draws: p.draw.Uint64()}
		if n == 0 {
			s.at = time.Duration(p.draw.Int64N(int64(roundLasts / 2)))
		} else {
			s.at = time.Duration(p.draw.Int64N(int64(lasts)))
		}
		switch {
		case f.brief:
		case n == 0 && lasts > roundLasts:
			s.lasts = lasts
		default:
			s.lasts = time.Second + time.Duration(p.draw.Int64N(int64(roundLasts)))
		}
		drawn.steps = append(drawn.steps, s)
	}
	p.operations(drawn, operations(), lasts)
}

// operations draws operations for a time.
func (p *plans) operations(drawn *plan, from []operation, lasts time.Duration) {
	for range int(lasts/roundLasts) * (3 + p.draw.IntN(mostOps-2)) {
		o := from[p.draw.IntN(len(from))]
		at := time.Duration(p.draw.Int64N(int64(lasts)))
		drawn.steps = append(drawn.steps, step{at: at, operation: &o, draws: p.draw.Uint64()})
	}
}

// setBack draws a round in which a cluster forgets the operations. Pods that were to finish could be among them.
func (p *plans) setBack(drawn plan, name string) plan {
	f := settingBack(name)
	drawn.steps = append(drawn.steps, step{lasts: roundLasts, fault: &f})
	lasting := slices.DeleteFunc(operations(), func(o operation) bool { return o.begins })
	p.operations(&drawn, lasting, roundLasts)
	return drawn
}

// loss draws a round in which the target is away until fenced pods have moved. Nothing else moves them.
func (p *plans) loss(drawn plan) plan {
	f := losing()
	drawn.steps = append(drawn.steps, step{lasts: longestLasts, fault: &f})
	staying := slices.DeleteFunc(operations(), func(o operation) bool { return o.moves })
	p.operations(&drawn, staying, longLasts)
	return drawn
}

// amid draws a round in which the leader of the source is killed while it places pods, and nothing else breaks.
func (p *plans) amid(drawn plan) plan {
	f := killingLeader()
	drawn.steps = append(drawn.steps, step{fault: &f, draws: p.draw.Uint64()})
	begin := slices.DeleteFunc(operations(), func(o operation) bool { return !o.begins })
	p.operations(&drawn, begin, roundLasts)
	return drawn
}

// timed draws a round with one fault, which lasts, and with pods that begin.
func (p *plans) timed(drawn plan, f fault) plan {
	drawn.steps = append(drawn.steps, step{lasts: longLasts, fault: &f, draws: p.draw.Uint64()})
	begin := slices.DeleteFunc(operations(), func(o operation) bool { return !o.begins })
	p.operations(&drawn, begin, roundLasts)
	return drawn
}

// take takes a fault of another part from the bag.
func (p *plans) take(parts map[string]bool) *fault {
	if len(p.bag) == 0 {
		p.bag = faults()
		p.draw.Shuffle(len(p.bag), func(i, j int) { p.bag[i], p.bag[j] = p.bag[j], p.bag[i] })
	}
	for i, f := range p.bag {
		if !parts[f.part] {
			p.bag = append(p.bag[:i:i], p.bag[i+1:]...)
			return &f
		}
	}
	return nil
}

// mustNotice returns the fault by which the target is away for so long that the source must notice. It returns "" if
// there is none, or if something breaks the source, or has the target refuse it.
func (p plan) mustNotice() string {
	cuts := ""
	for _, s := range p.steps {
		switch {
		case s.fault == nil:
		case s.fault.part == source, s.fault.part == leader, s.fault.part == secret:
			return ""
		case s.fault.cuts && s.lasts >= longLasts:
			cuts = s.fault.name
		}
	}
	return cuts
}

func (p plan) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "round %d of seed %d:", p.round, p.seed)
	for _, s := range p.steps {
		fmt.Fprintf(&text, "\n  after %4.1f s: %s", s.at.Seconds(), s.name())
		if s.lasts > 0 {
			fmt.Fprintf(&text, ", for %.1f s", s.lasts.Seconds())
		}
	}
	return text.String()
}
