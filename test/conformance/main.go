package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

type options struct {
	names    string
	short    bool
	parallel int
	report   string
	results  string
	skew     string
	again    bool
	keep     bool
}

func main() {
	var o options
	flag.StringVar(&o.names, "run", "", "a pattern of the names of the cases to run")
	flag.BoolVar(&o.short, "short", false, "run the short form, which has some cases of each topic")
	flag.IntVar(&o.parallel, "parallel", 6, "how many cases to run at the same time")
	flag.StringVar(&o.report, "report", "", "the page in which to write the tables of a full run")
	flag.StringVar(&o.results, "results", "", "a file of results, in which those of this run replace earlier ones")
	flag.StringVar(&o.skew, "skew", "",
		"a file of runs with two versions of Kubernetes, to which to add one. It also tries newer fields of pods")
	flag.BoolVar(&o.again, "again", false, "run nothing, but report the results of the file again")
	flag.BoolVar(&o.keep, "keep", false, "keep the namespaces of cases that did not pass, and the cordon")
	flag.Parse()
	ctx, stop := signal.NotifyContext(
		context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the program begins here
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

var errDifferences = errors.New("elected pods are not as they should be (see above)")

func (o options) run(ctx context.Context) error {
	say := func(format string, args ...any) {
		fmt.Printf("%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
	names, err := regexp.Compile(o.names)
	if err != nil {
		return fmt.Errorf("compiling the pattern of names: %w", err)
	}
	cases, casesErr := allCases()
	list, listErr := justifications(differencesFile)
	if err := errors.Join(casesErr, listErr); err != nil {
		return err
	}
	if o.skew != "" {
		return o.runSkew(ctx, cases, names, list, say)
	}
	list = ofOneVersion(list)
	known, err := readResults(o.results)
	if err != nil {
		return err
	}
	full := !o.short && o.names == "" || o.again
	if !o.again {
		ran, err := o.play(ctx, cases, names, list, say)
		if ran == nil {
			return err
		}
		full = full && !ran.missed
		known.merge(ran)
		if err := errors.Join(err, known.write(o.results)); err != nil {
			return err
		}
		if o.results == "" || !full {
			return decision(ran.of(cases, list), list, full, say)
		}
	}
	results := known.of(cases, list)
	if full {
		r := report{results: results, list: list, source: known.Source, target: known.Target, on: time.Now()}
		if err := r.write(o.report); err != nil {
			return err
		}
	}
	return decision(results, list, full, say)
}

// play runs the chosen cases.
func (o options) play(
	ctx context.Context, cases []*testCase, names *regexp.Regexp, list []*justification, say func(string, ...any),
) (*records, error) {
	l, err := setUp(ctx, say)
	if err != nil {
		return nil, err
	}
	return o.playIn(ctx, l, cases, names, list)
}

// playIn runs the chosen cases in a lab, and removes everything.
func (o options) playIn(
	ctx context.Context, l *lab, cases []*testCase, names *regexp.Regexp, list []*justification,
) (*records, error) {
	together, alone, missed := selected(cases, o.short, names, l.containerd2)
	for _, c := range missed {
		l.say("%-40s NOT RUN: it needs new clusters with containerd 2: clusters up c1 c2 --containerd2", c.name)
	}
	results := l.playAll(ctx, together, o.parallel, list)
	results = append(results, l.playAll(ctx, alone, 1, list)...)
	ran := recordsOf(results, l.source.version, l.target.version)
	ran.missed = len(missed) > 0
	if !o.keep {
		if err := l.tearDown(context.WithoutCancel(ctx)); err != nil {
			return ran, fmt.Errorf("removing everything: %w", err)
		}
	}
	return ran, nil
}

// runSkew runs the chosen cases and tries newer fields, with two versions of Kubernetes. It adds the run to the file,
// and writes the page.
func (o options) runSkew(
	ctx context.Context, cases []*testCase, names *regexp.Regexp, list []*justification, say func(string, ...any),
) error {
	runs, err := readSkew(o.skew)
	if err != nil {
		return err
	}
	l, err := setUp(ctx, say)
	if err != nil {
		return err
	}
	if l.source.version == l.target.version {
		err := fmt.Errorf("source and target have the same version %s: run `make test-skew`", l.source.version)
		return errors.Join(err, l.tearDown(ctx))
	}
	say("source %s, target %s", l.source.version, l.target.version)
	fields, triedErr := l.tryNewer(ctx, newerFields())
	ran, err := o.playIn(ctx, l, cases, names, list)
	if err := errors.Join(triedErr, err); err != nil {
		return err
	}
	runs.add(skewRun{Records: ran, Fields: fields})
	if err := runs.write(o.skew); err != nil {
		return err
	}
	if o.report != "" {
		if err := runs.report(o.report, cases, list); err != nil {
			return err
		}
	}
	return errors.Join(decision(ran.of(cases, list), list, false, say), decideSkew(fields))
}

// decision returns an error if the results are not as they should be.
func decision(results []result, list []*justification, full bool, say func(string, ...any)) error {
	if decide(results, list, full, say) {
		return errDifferences
	}
	say("%d cases, and no difference without a justification", len(results))
	return nil
}

// decide says whether the run failed, and why. In a full run each justification must have its difference.
func decide(results []result, list []*justification, full bool, say func(string, ...any)) (failed bool) {
	used := map[*justification]bool{}
	for _, r := range results {
		if r.broken != nil || len(r.rest) > 0 {
			failed = true
			say("%s", r)
		}
		for _, j := range r.by {
			used[j] = true
		}
	}
	for _, j := range list {
		if full && !used[j] && !j.Sometimes {
			failed = true
			say("NO DIFFERENCE matches the entry %q (cases %s, field %s)", j.Name, j.Cases, j.Field)
		}
	}
	return failed
}
