package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/faults/checker"
)

// The short form has both clusters set back, a drain, a loss that evicts pods, and almost all faults.
const (
	shortSeed   = 98
	shortRounds = 9
)

type options struct {
	seed, first uint64
	rounds      int
	lasts       time.Duration
	results     string
	report      string
	short       bool
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "what the rounds are drawn from")
	flag.Uint64Var(&o.first, "first", 1, "the number of the first round to play")
	flag.IntVar(&o.rounds, "rounds", 0, "how many rounds to play at most (zero: as many as the time allows)")
	flag.DurationVar(&o.lasts, "for", 5*time.Minute, "begin no round after this time")
	flag.StringVar(&o.results, "results", "", "a file of results to which to add those of this run")
	flag.StringVar(&o.report, "report", "", "a page in which to write a table of the results")
	flag.BoolVar(&o.short, "short", false, fmt.Sprintf("play the %d rounds of the short form, which is part of "+
		"make test; -seed and -for have no effect", shortRounds))
	flag.Parse()
	if o.short {
		o.seed, o.lasts = shortSeed, time.Hour
		if left := shortRounds + 1 - int(o.first); o.rounds == 0 || o.rounds > left {
			o.rounds = left
		}
	}
	ctx, stop := signal.NotifyContext(
		context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the program begins here
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

var errViolations = errors.New("promises were broken (see above)")

func (o options) run(ctx context.Context) error {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
	say("seed %d", o.seed)
	l, err := setUp(ctx, say)
	if err != nil {
		return err
	}
	results, err := readResults(o.results)
	if err != nil {
		return err
	}
	results.begin(o, commit(ctx))
	if err := until(ctx, l.atRest); err != nil {
		return fmt.Errorf("the pods do not run before the first fault: %w", err)
	}
	l.setBack.Store(false)
	plans := newPlans(o.seed)
	if o.short {
		plans = newShortPlans(shortSeed)
	}
	for played := 0; o.goesOn(ctx, l) && time.Since(began) < o.lasts && (o.rounds == 0 || played < o.rounds); {
		p := plans.next()
		if p.round < o.first {
			continue
		}
		played++
		if err := o.playOne(ctx, l, p, results); err != nil {
			return err
		}
	}
	for range shortTries {
		left := o.missing(l.done)
		if len(left) == 0 || !o.goesOn(ctx, l) {
			break
		}
		if err := o.playOne(ctx, l, plans.again(left[0]), results); err != nil {
			return err
		}
	}
	return o.complete(l, o.finish(context.WithoutCancel(ctx), l, results))
}

// complete returns the error of a run, or an error if the short form did not carry out what it has to, or any run what
// it drew several times.
func (o options) complete(l *lab, err error) error {
	if missing := o.missing(l.done); err == nil && len(missing) > 0 {
		return fmt.Errorf("the short form did not carry out %q", missing)
	}
	for _, name := range slices.Sorted(maps.Keys(l.drawn)) {
		if err == nil && !l.done[name] && l.drawn[name] >= inVain {
			return fmt.Errorf("%q was never carried out, and drawn %d times", name, l.drawn[name])
		}
	}
	return err
}

// inVain is how often a step has to be drawn before it is an error that it was never carried out. Another fault may
// keep it from being carried out.
const inVain = 5

// shortFaults are the names of faults that each run of the short form has to carry out.
func shortFaults() []string {
	return []string{
		settingBack(source).name, settingBack(target).name, drain().name, killingLeader().name,
		"partition", "one-way partition, to the target", "loss of a third of the packets",
		"the target's API server stopped",
		"leader of the source frozen", "leader of the source cut off from its API server",
		"leader of the target killed", "replica of the source killed",
		"Secret rotated", "Secret swapped", "rights revoked", "the virtual node is drained",
	}
}

// shortTries is how many rounds the short form has beside its own. Each has one of those faults that it could not carry
// out before: another fault may have kept it from that.
const shortTries = 3

// missing returns what the short form has to carry out, and has not. It is nothing if not all of it is played.
func (o options) missing(done map[string]bool) []string {
	if !o.short || o.rounds < shortRounds {
		return nil
	}
	return slices.DeleteFunc(shortFaults(), func(name string) bool { return done[name] })
}

// goesOn reports whether the next round begins. A broken promise makes the next rounds fail, too.
func (options) goesOn(ctx context.Context, l *lab) bool {
	return ctx.Err() == nil && len(l.history.Violations()) == 0
}

func (o options) playOne(ctx context.Context, l *lab, p plan, results *results) error {
	l.say("%s", p)
	res, err := l.play(ctx, p)
	switch {
	case errors.Is(err, errInterrupted):
		l.say("  interrupted: it does not count")
		return nil
	case err != nil:
		l.sayBroken(l.history.Violations())
		return err
	}
	if len(l.history.Violations()) > 0 {
		return nil // The round does not count.
	}
	results.add(res)
	if err := results.write(o.results); err != nil {
		return err
	}
	l.say("  at rest after %.1f s; %d faults and %d operations in all",
		res.rest.Seconds(), results.Faults.count(), results.Operations.count())
	return nil
}

// sayBroken prints the promises that were broken.
func (l *lab) sayBroken(violations []checker.Violation) {
	for _, v := range violations {
		l.say("BROKEN: %s", v)
	}
}

// finish prints and keeps the results. It deletes the namespace, unless a promise was broken: somebody wants to look.
func (o options) finish(ctx context.Context, l *lab, results *results) error {
	violations := l.history.Violations()
	if len(violations) == 0 {
		if err := l.tearDown(ctx); err != nil {
			l.history.Violate(checker.NothingIsStuck, "%v", err)
			violations = l.history.Violations()
		}
	}
	l.sayBroken(violations) // When the namespace is deleted, pods go for no other reason.
	if err := errors.Join(results.write(o.results), results.report(o.report)); err != nil {
		return err
	}
	if len(violations) > 0 {
		return fmt.Errorf("%w; the pods are in namespace %s", errViolations, l.namespace)
	}
	l.say("no promise was broken. %s", results.table())
	return nil
}
