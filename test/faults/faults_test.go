package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestASeedRepeatsItsRounds(t *testing.T) {
	one, same, other := newPlans(7), newPlans(7), newPlans(8)
	differ := false
	for range 50 {
		first, second := one.next().String(), same.next().String()
		if first != second {
			t.Fatalf("seed 7 drew\n%s\nand\n%s", first, second)
		}
		differ = differ || strings.SplitN(first, "\n", 2)[1] != strings.SplitN(other.next().String(), "\n", 2)[1]
	}
	if !differ {
		t.Error("another seed draws the same")
	}
}

func TestEachFaultIsDrawnAndNoPartBreaksTwiceInARound(t *testing.T) {
	drawn := map[string]int{}
	plans := newPlans(1)
	for range 200 {
		parts := map[string]bool{}
		for _, s := range plans.next().steps {
			drawn[s.name()]++
			if s.fault == nil {
				continue
			}
			if parts[s.fault.part] {
				t.Errorf("%s breaks the %s a second time", s.fault.name, s.fault.part)
			}
			parts[s.fault.part] = true
		}
	}
	for _, f := range append(faults(), settingBack(source), settingBack(target), losing(), killingLeader()) {
		if drawn[f.name] == 0 {
			t.Errorf("in 200 rounds, there was no %q", f.name)
		}
	}
	for _, o := range append(operations(), drain()) {
		if drawn[o.name] == 0 {
			t.Errorf("in 200 rounds, there was no %q", o.name)
		}
	}
}

func TestNothingExcusesASecondDelegateWhenTheLeaderIsKilledAmidPlacing(t *testing.T) {
	plans, found := newPlans(1), 0
	for range 200 {
		p := plans.next()
		if !slices.ContainsFunc(p.steps, func(s step) bool { return s.name() == killingLeader().name }) {
			continue
		}
		found++
		for _, s := range p.steps {
			if s.fault != nil && (s.fault.away || s.fault.refuses) {
				t.Errorf("%s makes the target away in\n%s", s.name(), p)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d of 200 rounds kill the leader while it places pods", found)
	}
}

func TestTheTargetIsLostOftenEnoughForAFence(t *testing.T) {
	plans, since := newPlans(1), 0
	for range 100 {
		p := plans.next()
		if since++; since > lossEvery {
			t.Fatalf("there was none in the %d rounds up to %d", since, p.round)
		}
		if p.steps[0].name() != losing().name {
			if p.round == 12 {
				t.Error("hack/breakages plays round 12, and it loses no target")
			}
			continue
		}
		since = 0
		for _, s := range p.steps {
			if s.operation != nil && s.operation.moves {
				t.Errorf("%s may move the fenced pod", s.name())
			}
		}
	}
}

func TestOnlyFaultsOfTheTargetMakeItAway(t *testing.T) {
	for _, f := range append(faults(), killingLeader()) {
		switch f.part {
		case source, leader, "replica", "leader there", "replica there", "kubelet":
			if f.away || f.refuses {
				t.Errorf("%s breaks the %s, and the target counts as away", f.name, f.part)
			}
		case secret:
			if f.away {
				t.Errorf("%s has the target refuse the source, and the target counts as away", f.name)
			}
		}
		if (f.part == source || f.part == leader) && !f.silences {
			t.Errorf("%s need not silence the source", f.name)
		}
		if f.cuts && !f.away {
			t.Errorf("%s cuts the target off, and it does not count as away", f.name)
		}
	}
}

// isSure reports whether a step is carried out even while the source's API server is broken.
func (s step) isSure() bool {
	return s.fault != nil && (s.fault.part == network || s.fault.part == source || s.fault.part == target)
}

func TestTheShortFormHasWhatMatters(t *testing.T) {
	drawn, long := map[string]bool{}, false
	plans := newShortPlans(shortSeed)
	for range shortRounds {
		p := plans.next()
		long = long || p.mustNotice() != ""
		// While its API server is broken, the source has no leader that could be found.
		broken := slices.ContainsFunc(p.steps, func(s step) bool {
			return s.fault != nil && s.fault.part == source && !s.fault.atEnd
		})
		for _, s := range p.steps {
			drawn[s.name()] = drawn[s.name()] || !broken || s.isSure()
			if s.lasts > longLasts {
				t.Errorf("%s takes %s", s.name(), s.lasts)
			}
		}
	}
	if !long {
		t.Error("the target is never away for so long that the source must notice")
	}
	for _, name := range (options{short: true, rounds: shortRounds}).missing(drawn) {
		t.Errorf("it has no %q that is surely carried out; it has %v", name, slices.Sorted(maps.Keys(drawn)))
	}
}

func TestWhatARoundMeasures(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for name, test := range map[string]struct {
		notes []note
		want  times
	}{
		"a partition": {
			notes: []note{
				{at: at(10), what: began, name: "partition"}, {at: at(40), what: unready},
				{at: at(85), what: over}, {at: at(90), what: ready},
			},
			want: times{of: "partition", noticed: 30 * time.Second, back: 5 * time.Second},
		},
		"a partition that begins with a new Secret": {
			notes: []note{
				{at: at(10), what: began, name: "partition"}, {at: at(30), what: cut}, {at: at(75), what: unready},
				{at: at(85), what: over}, {at: at(90), what: ready},
			},
			want: times{of: "partition", noticed: 45 * time.Second, back: 5 * time.Second},
		},
		"a kill": {
			notes: []note{{at: at(10), what: began, name: "kill"}, {at: at(25), what: leads}},
			want:  times{of: "kill", takenOver: 15 * time.Second},
		},
		"a kill in the target": {
			notes: []note{{at: at(10), what: began, name: "kill"}, {at: at(25), what: leadsThere}},
			want:  times{of: "kill", takenOverThere: 15 * time.Second},
		},
		"nobody knows for a while": {
			notes: []note{
				{at: at(10), what: began, name: "partition"}, {at: at(30), what: unknown}, {at: at(45), what: unready},
				{at: at(85), what: over}, {at: at(90), what: ready},
			},
			want: times{of: "partition", noticed: 35 * time.Second, back: 5 * time.Second},
		},
		"a set-back, which is prepared before": {
			notes: []note{
				{at: at(30), what: began, name: "set back"}, {at: at(60), what: unready}, {at: at(61), what: over},
				{at: at(70), what: ready},
			},
			want: times{of: "set back", noticed: 30 * time.Second, back: 9 * time.Second},
		},
		"two faults": {
			notes: []note{
				{at: at(10), what: began, name: "kill"}, {at: at(11), what: began, name: "partition"},
				{at: at(25), what: leads},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := measure(test.notes); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestALongPartitionMustBeNoticed(t *testing.T) {
	find := func(name string) *fault {
		for _, f := range faults() {
			if f.name == name {
				return &f
			}
		}
		t.Fatalf("no fault %q", name)
		return nil
	}
	long, short := step{fault: find("partition"), lasts: longLasts}, step{fault: find("partition"), lasts: time.Second}
	if got := (plan{steps: []step{long}}).mustNotice(); got != "partition" {
		t.Errorf("a long partition must be noticed, and not %q", got)
	}
	for _, steps := range [][]step{
		{short}, {long, {fault: find("leader of the source killed")}}, {long, {fault: find("Secret swapped")}},
	} {
		if p := (plan{steps: steps}); p.mustNotice() != "" {
			t.Errorf("somebody must notice: %s", p)
		}
	}
}

func TestWhenALossIsNoticed(t *testing.T) {
	at := func(seconds int, what, name string) note {
		return note{at: time.Unix(int64(seconds), 0), what: what, name: name}
	}
	other, begins := at(1, cut, "other"), at(30, cut, "partition")
	for name, test := range map[string]struct {
		notes []note
		want  bool
	}{
		"in time":             {notes: []note{begins, at(80, unready, "")}, want: true},
		"late":                {notes: []note{begins, at(81, unready, "")}},
		"never":               {notes: []note{begins}},
		"nobody knows":        {notes: []note{begins, at(60, unknown, "")}},
		"late, and then sure": {notes: []note{begins, at(60, unknown, ""), at(79, unready, "")}, want: true},
		"before, and Ready":   {notes: []note{other, at(20, unready, ""), at(25, ready, ""), begins}},
		"before, and still":   {notes: []note{other, at(20, unready, ""), begins}, want: true},
		"no such fault":       {notes: []note{other}, want: true},
	} {
		if got := noticed(test.notes, "partition"); got != test.want {
			t.Errorf("%s: noticed: %t", name, got)
		}
	}
}

func TestResultsAreAddedToTheEarlierOnes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	for range 2 {
		r, err := readResults(file)
		if err != nil {
			t.Fatal(err)
		}
		r.begin(options{seed: 7, first: 1}, "abc")
		r.add(result{
			faults: []string{"partition"}, operations: []string{"a pod is deleted", "a pod is deleted"},
			rest: 3 * time.Second, times: times{of: "partition", noticed: 31 * time.Second},
		})
		if err := r.write(file); err != nil {
			t.Fatal(err)
		}
	}
	r, err := readResults(file)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rounds != 2 || r.Faults.count() != 2 || r.Operations.count() != 4 || len(r.Faults["partition"].Noticed) != 2 {
		t.Errorf("got %+v", r)
	}
	text := r.table()
	for _, want := range []string{
		"2 faults and 4 operations in 2 rounds", "| partition | 2 | 3.0 s", "| a pod is deleted | 4 |",
		`make test-faults FAULTS="-seed 7 -first 1 -rounds 1 -for 24h" # abc`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

func TestResultsOfAnEarlierCheckerDoNotCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	earlier := `{"rounds": 112, "faults": {"partition": {"count": 11, "rest": [1.5]}}}`
	if err := os.WriteFile(file, []byte(earlier), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := readResults(file); err == nil || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("got %+v, %v", r, err)
	}
}
