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
	keep     bool
}

func main() {
	var o options
	flag.StringVar(&o.names, "run", "", "a pattern of the names of the cases to run")
	flag.BoolVar(&o.short, "short", false, "run the short form, which has some cases of each topic")
	flag.IntVar(&o.parallel, "parallel", 6, "how many cases to run at the same time")
	flag.StringVar(&o.report, "report", "", "the page in which to write the tables of a full run")
	flag.BoolVar(&o.keep, "keep", false, "keep the namespaces of cases with differences that are not justified")
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
	cases, err := allCases()
	if err != nil {
		return err
	}
	list, err := justifications(differencesFile)
	if err != nil {
		return err
	}
	l, err := setUp(ctx, say)
	if err != nil {
		return err
	}
	together, alone := selected(cases, o.short, names)
	results := l.playAll(ctx, together, o.parallel, list)
	results = append(results, l.playAll(ctx, alone, 1, list)...)
	full := !o.short && o.names == ""
	failed := judge(results, list, full, say)
	if !failed || !o.keep {
		if err := l.tearDown(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("removing everything: %w", err)
		}
	}
	if full && o.report != "" {
		report := report{results: results, list: list, source: l.source.version, target: l.target.version}
		if err := report.write(o.report); err != nil {
			return err
		}
	}
	if failed {
		return errDifferences
	}
	say("%d cases, and no difference without a justification", len(results))
	return nil
}

// judge says whether the run failed, and why. In a full run each justification must have its difference.
func judge(results []result, list []*justification, full bool, say func(string, ...any)) (failed bool) {
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
