package uninstall

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestTheLogSaysWhatIsWaitedFor(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	var lines []string
	r := &run{clock: clock, log: funcr.New(func(_, line string) {
		_, line, _ = strings.Cut(line, `"msg"=`)
		lines = append(lines, line)
	}, funcr.Options{})}
	until := clock.Now().Add(time.Hour)
	for second := range 62 {
		stage := "ending pods"
		if second > 40 {
			stage = "ending delegates"
		}
		r.report(stage, until, "left", 100-second)
		clock.Step(time.Second)
	}
	want := []string{
		`"ending pods" "until"="2026-01-01T01:00:00Z" "left"=100`,
		`"ending pods" "until"="2026-01-01T01:00:00Z" "left"=70`,
		`"ending delegates" "until"="2026-01-01T01:00:00Z" "left"=59`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("logged:\n%s", strings.Join(lines, "\n"))
	}
}
