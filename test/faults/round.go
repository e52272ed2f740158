package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// result is what came of a round.
type result struct {
	// faults and operations are the names of the faults that were injected, and of the operations that had an effect.
	faults, operations []string
	// rest is the time from the last repair until all was at rest.
	rest  time.Duration
	times times
	// took is the time that the operation of this round took, if its time counts.
	took time.Duration
}

// errInterrupted says that somebody ended the run amid a round, which then proves nothing.
var errInterrupted = errors.New("interrupted")

// play carries out a round, repairs everything and waits until all is at rest.
func (l *lab) play(ctx context.Context, p plan) (result, error) {
	var (
		steps sync.WaitGroup
		mu    sync.Mutex // guards res
		res   result
	)
	seen := l.observe(ctx)
	for i := range p.steps {
		s := &p.steps[i]
		l.drawn[s.name()]++
		steps.Go(func() {
			wait(ctx, s.at)
			err := l.prepare(ctx, s)
			start := time.Now()
			if err == nil {
				err = l.carryOut(ctx, s, seen)
			}
			if err != nil {
				l.say("  not carried out: %s: %v", s.name(), err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case s.fault != nil:
				res.faults = append(res.faults, s.name())
			case s.operation.counts:
				res.operations = append(res.operations, s.name())
			}
			l.done[s.name()] = true
			if s.operation != nil && s.operation.timed {
				res.took = time.Since(start)
			}
		})
	}
	steps.Wait()
	if err := l.repair(context.WithoutCancel(ctx)); err != nil {
		return res, fmt.Errorf("repairing: %w", err)
	}
	if ctx.Err() != nil {
		return res, errInterrupted
	}
	start := time.Now()
	switch err := until(ctx, l.atRest); {
	case ctx.Err() != nil:
		return res, errInterrupted
	case err != nil:
		l.history.Violate(checker.Converges, "round %d of seed %d: %v", p.round, p.seed, err)
	}
	res.rest = time.Since(start)
	if err := until(ctx, l.caughtUp); err != nil {
		return res, fmt.Errorf("the checker cannot see what happens: %w", err)
	}
	res.times = seen.stop()
	if fault := p.mustNotice(); fault != "" && !noticed(seen.notes, fault) {
		l.history.Violate(checker.Notices, "round %d of seed %d: node %s was not False within %s: %v",
			p.round, p.seed, target, noticeWithin, seen.notes)
	}
	return res, l.conclude(ctx)
}

// conclude checks what has to be true at rest, and sweeps up.
func (l *lab) conclude(ctx context.Context) error {
	if err := l.bereave(ctx); err != nil {
		return fmt.Errorf("deleting the delegates of pods that have finished: %w", err)
	}
	if err := until(ctx, l.caughtUp); err != nil {
		return fmt.Errorf("the checker cannot see what happened last: %w", err)
	}
	l.history.Ends()
	l.setBack.Store(false)
	return l.sweep(ctx)
}

// prepare does what a step needs before its time begins.
func (l *lab) prepare(ctx context.Context, s *step) error {
	switch {
	case s.operation != nil && s.operation.prepare != nil:
		return s.operation.prepare(ctx, l)
	case s.fault != nil && s.fault.prepare != nil:
		return s.fault.prepare(ctx, l)
	}
	return nil
}

// carryOut does one step. A fault is repaired when its time is over.
func (l *lab) carryOut(ctx context.Context, s *step, seen *observer) error {
	draw := rand.New(rand.NewPCG(s.draws, 0)) //nolint:gosec // It is to be repeated.
	if s.operation != nil {
		return s.operation.do(ctx, l, draw)
	}
	if s.fault.away {
		l.history.Away(target, true)
		defer l.history.Away(target, false)
	}
	if s.fault.refuses {
		l.history.Refuses(target, true)
		defer l.history.Refuses(target, false)
	}
	if s.fault.blurs {
		l.history.Blurs(source, true)
		defer l.history.Blurs(source, false)
	}
	if s.fault.silences {
		l.history.Silent(true)
		defer l.history.Silent(false)
	}
	if !s.fault.atEnd {
		seen.note(began, s.fault.name)
	}
	repair, err := s.fault.begin(ctx, l, draw)
	if err == nil && s.fault.cuts {
		seen.note(cut, s.fault.name)
	}
	if repair != nil {
		wait(ctx, s.lasts)
		if s.fault.atEnd {
			seen.note(began, s.fault.name)
		}
		ended := until(ctx, repair)
		seen.note(over, s.fault.name)
		if err == nil {
			err = ended
		}
	}
	return err
}

// repair makes the clusters whole, whatever steps did not undo.
func (l *lab) repair(ctx context.Context) error {
	for _, name := range []string{source, target} {
		for _, component := range []string{"kube-apiserver", "etcd", "kubelet"} {
			_ = clusters(ctx, "thaw", name, component) // An error says that it does not run.
		}
	}
	if err := clusters(ctx, "up", source, target); err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		if err := l.kubectl(ctx, "uncordon", "admiralty-"+source, "admiralty-"+target); err != nil {
			return err
		}
		l.history.Changes(web)
		return l.kubectl(ctx, "scale", "deployment/web", fmt.Sprintf("--replicas=%d", webReplicas))
	})
}
