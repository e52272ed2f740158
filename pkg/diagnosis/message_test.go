package diagnosis

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// alike returns n targets that share a reason.
func alike(n int, reason string) []Target {
	targets := make([]Target, n)
	for i := range targets {
		targets[i] = Target{Name: fmt.Sprintf("c%d", i), Reason: reason}
	}
	return targets
}

func TestMessageNamesTargetsAndWhatEachLacks(t *testing.T) {
	const small = "no node has 4 free CPUs (largest: 1.5)"
	for name, test := range map[string]struct {
		targets []Target
		tried   Target
		want    string
	}{
		"each target has its own reason": {
			[]Target{{Name: "c1", Reason: "cordoned"}, {Name: "c0", Reason: small}}, Target{},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5); c1: cordoned.",
		},
		"many targets with the same reason": {
			alike(5, "not reachable"), Target{},
			"0/6 clusters are available: c0, c1, c2 and 2 more: not reachable.",
		},
		"a target that may grow is tried": {
			alike(1, small), Target{Name: "c0", Trial: TrialGrow},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5). Trying c0, which can add nodes.",
		},
		"a target that may preempt is tried": {
			alike(1, small), Target{Name: "c0", Trial: TrialPreempt},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5). Trying c0, where less " +
				"important pods may make room.",
		},
		"a target that is unsure is tried": {
			alike(1, small), Target{Name: "c0", Trial: TrialUnsure},
			"0/6 clusters are available: c0: no node has 4 free CPUs (largest: 1.5). Trying c0, whose nodes may match.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if full, short := Message(6, test.targets, test.tried); full != test.want || short != test.want {
				t.Errorf("full  %q\nshort %q\nwant  %q", full, short, test.want)
			}
		})
	}
}

func TestShortMessageFitsIntoAnEvent(t *testing.T) {
	targets := alike(100, "")
	for i := range targets {
		targets[i].Reason = fmt.Sprintf("no node has %d free CPUs", i)
	}
	full, short := Message(100, targets, Target{})
	if len(short) > maxMessage || len(short) < maxMessage-100 ||
		!strings.HasSuffix(short, "; and more: see kubectl multicluster explain pod.") {
		t.Errorf("short message of %d bytes: %s", len(short), short)
	}
	if len(full) < 2*maxMessage {
		t.Errorf("full message of %d bytes: %s", len(full), full)
	}
	if got := Shorten(full); len(got) > maxMessage || !strings.HasSuffix(got, seeExplain) {
		t.Errorf("shortened to %d bytes: %s", len(got), got)
	}
}

func TestAbridgeKeepsWholePartsAndWholeCharacters(t *testing.T) {
	long := strings.Repeat("ä", 100)
	got := abridge([]string{long, "b"}, 100)
	if len(got) > 100 || !utf8.ValidString(got) || !strings.HasPrefix(got, "ää") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := abridge([]string{"a", "b"}, 100); got != "a; b" {
		t.Errorf("got %q", got)
	}
}
