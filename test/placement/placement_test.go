package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	quiet()
	os.Exit(m.Run())
}

// shortScenarios are small fleets.
func shortScenarios() []scenario {
	return []scenario{
		{"services", "", 21, 4 * time.Minute, services(3, 0.8)},
		{"jobs that wait for others", "", 22, 10 * time.Minute, batch(2, 1.2)},
		{"gangs", "", 23, 6 * time.Minute, gangs(2)},
		{"autoscalers", "", 24, 10 * time.Minute, growing(3)},
		{"priorities", "", 7, 6 * time.Minute, priorities(2)},
		{"anti-affinity", "", 26, 5 * time.Minute, alone},
		{"a queue beside clusters with room", "", 25, 10 * time.Minute, queued(3)},
	}
}

// worstScenarios are those, of all that were drawn, in which pods were held the longest before this was mended.
func worstScenarios() []scenario {
	var worst []scenario
	for _, s := range scenarios() {
		if s.name == "queues" {
			for _, s.seed = range []uint64{110, 310, 810} {
				worst = append(worst, s)
			}
		}
	}
	return worst
}

func TestNoPodWaitsAlthoughATargetHasRoom(t *testing.T) {
	for _, s := range slices.Concat(shortScenarios(), worstScenarios()) {
		t.Run(fmt.Sprintf("%s %d", s.name, s.seed), func(t *testing.T) {
			r, err := simulate(t, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(strings.Join(r.cells(), " | "))
			r.limited = r.limited && s.name == "queues" // In the others, the rest of the fleet has room for all.
			for _, problem := range r.problems() {
				t.Error(problem)
			}
		})
	}
}

func TestABigPodDoesNotStarveAmongSmallOnes(t *testing.T) {
	r, err := simulate(t, scenario{"a big pod", "", 27, 14 * time.Minute, bigPod(2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.Join(r.cells(), " | "))
	const most = 4 * time.Minute // Small pods keep coming for twice as long.
	if r.fleet.longest > most || r.flat.longest < most {
		t.Errorf("the longest wait is %s, and %s in a flat cluster of the same nodes", r.fleet.longest, r.flat.longest)
	}
}

func TestNoPodWaitsForANodeThatDaemonSetsLeaveTooSmall(t *testing.T) {
	r, err := simulate(t, scenario{"autoscalers, DaemonSets", "", 28, 20 * time.Minute, beside(3)})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.Join(r.cells(), " | "))
	const most = 2 * time.Minute // A new node takes one, and a trial in vain ten.
	if r.fleet.placed < r.fleet.pods || r.fleet.longest > most {
		t.Errorf("%d of %d pods were placed, and waited for up to %s", r.fleet.placed, r.fleet.pods, r.fleet.longest)
	}
}

func TestTheSameSeedMakesTheSameScenario(t *testing.T) {
	for _, s := range scenarios() {
		a, b := s.made(), s.made()
		if len(a.arrivals) == 0 || len(a.clusters) == 0 {
			t.Fatalf("%s has no pods, or no clusters", s.name)
		}
		for i := range a.arrivals {
			if a.arrivals[i].at != b.arrivals[i].at || a.arrivals[i].pod.Name != b.arrivals[i].pod.Name {
				t.Fatalf("%s: pod %d differs", s.name, i)
			}
		}
		s.seed++
		c, drawn := s.made(), !strings.Contains(s.name, "big pod")
		if drawn && len(c.arrivals) == len(a.arrivals) && c.cpus() == a.cpus() {
			t.Errorf("%s is the same with another seed", s.name)
		}
	}
}

func TestTheTableHasARowForEachResult(t *testing.T) {
	r := result{scenario: scenarios()[0], fleet: figures{pods: 8, placed: 6}, flat: figures{pods: 8, placed: 7}}
	if got := table([]result{r, r}); strings.Count(got, "| 75.0 % | 87.5 % |") != 2 {
		t.Errorf("the table is:\n%s", got)
	}
}
