package simulation

import (
	"math/rand/v2"
	"slices"
)

// swarm draws the steps of one run. Each run has its own kinds of faults, and most have few: so it gets deep. Parts of
// the world stall for a while, and everything else goes on.
type swarm struct {
	*rand.Rand

	world *world
	kinds []func() []action
	names []string
	// burst is how many steps go on at most before something else is drawn.
	burst int
	// stalls has the parts that do nothing for so many steps.
	stalls map[string]int
	// patience is how many steps a stall lasts at most. It is 0 if nothing stalls.
	patience int
}

// newSwarm draws which kinds of steps a run has, and how often.
func newSwarm(w *world, random *rand.Rand) *swarm {
	s := &swarm{Rand: random, world: w, stalls: map[string]int{}}
	s.names = names()[:s.among(1, 1, 2)]
	s.burst = s.among(1, 4, 12, 30)
	s.patience = s.among(0, 15, 40, 100)
	add := func(kind func() []action, often ...int) {
		for range s.among(often...) {
			s.kinds = append(s.kinds, kind)
		}
	}
	add(s.goesOn, 20)
	add(func() []action { return w.creations(s.names) }, 2)
	add(w.ofProxies, 0, 1, 2)
	add(w.ofDelegates, 0, 0, 1)
	add(w.ofChaperons, 0, 0, 0, 1)
	add(w.twins, 0, 0, 0, 0, 1)
	add(w.ends, 0, 1, 3)
	add(w.times, 1, 2, 4)
	add(w.lost, 0, 0, 2, 6)
	add(w.late, 0, 0, 2, 6)
	add(w.lists, 0, 0, 1, 4)
	add(w.rooms, 0, 1, 3)
	add(w.moves, 0, 1, 3)
	add(w.ofSource, 0, 0, 1, 2)
	add(w.ofTargets, 0, 0, 1, 2)
	add(w.outages, 0, 0, 2, 4)
	add(w.freezes, 0, 0, 0, 2)
	add(w.olds, 0, 0, 0, 3)
	add(w.backups, 0, 0, 0, 0, 2)
	return s
}

func (s *swarm) among(numbers ...int) int { return numbers[s.IntN(len(numbers))] }

// run does the steps of a run.
func (s *swarm) run() {
	for range s.among(0, 0, 1, 2) {
		if wrong := s.world.clocks(); len(wrong) > 0 {
			s.world.do(wrong[s.IntN(len(wrong))])
		}
	}
	for range stepsOfARun {
		if len(s.world.trace) >= stepsOfARun || s.world.failed() != nil {
			return
		}
		s.stall()
		possible := s.kinds[s.IntN(len(s.kinds))]()
		if len(possible) > 0 {
			s.world.do(possible[s.IntN(len(possible))])
		}
	}
}

// stall lets a part of the world stall that was to go on just now.
func (s *swarm) stall() {
	for part, left := range s.stalls {
		if left <= len(s.world.trace) {
			delete(s.stalls, part)
		}
	}
	if s.patience == 0 || s.IntN(6) > 0 {
		return
	}
	if all := s.world.progress(); len(all) > 0 {
		chosen := all[s.IntN(len(all))]
		part := chosen.of
		if s.IntN(3) == 0 {
			part = chosen.label
		}
		s.stalls[part] = len(s.world.trace) + 1 + s.IntN(s.patience)
	}
}

// goesOn does several steps in a row of what goes on by itself, but the last one. If nothing goes on, time passes.
func (s *swarm) goesOn() []action {
	for range s.IntN(s.burst) {
		all := s.possible()
		if len(all) == 0 || s.world.failed() != nil {
			break
		}
		s.world.do(all[s.IntN(len(all))])
	}
	if all := s.possible(); len(all) > 0 {
		return all
	}
	if all := s.world.times(); len(all) > 0 {
		return all
	}
	clear(s.stalls)
	return s.possible()
}

// possible returns what goes on by itself and does not stall.
func (s *swarm) possible() []action {
	return slices.DeleteFunc(s.world.progress(), func(a action) bool {
		return s.stalls[a.of] > 0 || s.stalls[a.label] > 0
	})
}
