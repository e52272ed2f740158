package warnings

import (
	"fmt"
	"testing"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestWhenWarningsAreShown(t *testing.T) {
	begin := time.Unix(1000, 0)
	type warned struct {
		reason string
		at     time.Duration
	}
	for name, test := range map[string]struct {
		shown   []warned // and the time of showing is that of the last one
		noted   []warned
		wait    time.Duration
		pending bool
	}{
		"nothing is nothing to show": {},
		"a first one at once":        {noted: []warned{{"FailedMount", 0}}, pending: true},
		"a repeated one after ten seconds": {
			shown: []warned{{"FailedMount", 0}}, noted: []warned{{"FailedMount", 2 * time.Second}},
			wait: 8 * time.Second, pending: true,
		},
		"a repeated one at once if the last one is long ago": {
			shown: []warned{{"FailedMount", 0}}, noted: []warned{{"FailedMount", time.Minute}}, pending: true,
		},
		"another reason at once": {
			shown: []warned{{"FailedMount", 0}}, noted: []warned{{"BackOff", 2 * time.Second}}, pending: true,
		},
		"another reason takes a repeated one along": {
			shown:   []warned{{"FailedMount", 0}},
			noted:   []warned{{"FailedMount", time.Second}, {"BackOff", 2 * time.Second}},
			pending: true,
		},
		"another reason within the same second after a second": {
			shown: []warned{{"FailedMount", 0}}, noted: []warned{{"BackOff", 400 * time.Millisecond}},
			wait: 600 * time.Millisecond, pending: true,
		},
		"an invented reason as a repeated one": {
			shown:   []warned{{"A", 0}, {"B", 0}, {"C", 0}, {"D", 0}, {"E", 0}},
			noted:   []warned{{"F", 2 * time.Second}},
			wait:    8 * time.Second,
			pending: true,
		},
		"an older one never": {
			shown: []warned{{"FailedMount", time.Minute}}, noted: []warned{{"FailedMount", 0}},
		},
		"the same one never": {
			shown: []warned{{"FailedMount", 0}}, noted: []warned{{"FailedMount", 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, now := &entry{}, begin
			for _, w := range test.shown {
				now = begin.Add(w.at)
				e.note(translate.Warning(w.reason, "why", now))
				e.show(now)
			}
			for _, w := range test.noted {
				if at := begin.Add(w.at); at.After(now) {
					now = at
				}
				e.note(translate.Warning(w.reason, "why", begin.Add(w.at)))
			}
			if wait, pending := e.wait(now); wait != test.wait || pending != test.pending {
				t.Errorf("wait %s, pending %t", wait, pending)
			}
		})
	}
}

func TestADelegateHasFewWarnings(t *testing.T) {
	e := &entry{}
	for i := range 10_000 {
		e.note(translate.Warning(fmt.Sprintf("Reason%d", i), "why", time.Unix(int64(i), 0)))
	}
	if len(e.latest) != translate.MaxWarnings || cap(e.latest) > 2*translate.MaxWarnings {
		t.Errorf("%d warnings, in an array of %d", len(e.latest), cap(e.latest))
	}
}
