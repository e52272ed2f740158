package target

import (
	"strings"
	"testing"
	"time"
)

func TestADifferenceOfClocksIsShownAndDoesNotFlicker(t *testing.T) {
	e := &engagement{}
	last := ""
	for _, step := range []struct {
		ahead time.Duration
		want  string // a part of the text, or nothing
		same  bool   // as the text before
	}{
		{ahead: 8 * time.Second},
		{ahead: 90 * time.Second, want: "its clock is 2m ahead of this cluster's"},
		{ahead: time.Hour + 29*time.Second, want: "its clock is 60m ahead of this cluster's"},
		{ahead: time.Hour + 31*time.Second, want: "60m ahead", same: true},
		{ahead: time.Hour - 50*time.Second, want: "60m ahead", same: true},
		{ahead: -3 * time.Hour, want: "its clock is 3h behind this cluster's"},
		{ahead: -time.Second},
	} {
		e.compare(step.ahead)
		text := clocksText(e.ahead)
		if !strings.Contains(text, step.want) || step.want == "" && text != "" || step.same && text != last {
			t.Errorf("for %s the text is %q, want %q in it", step.ahead, text, step.want)
		}
		last = text
	}
}
