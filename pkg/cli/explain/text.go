package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

const none = "-"

// write prints the report as text, JSON or YAML.
func (r report) write(out io.Writer, now time.Time, output string) error {
	var raw []byte
	var err error
	switch output {
	case "json":
		raw, err = json.MarshalIndent(r, "", "  ")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yaml.Marshal(r)
	default:
		raw = r.text(now)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(raw)
	return err
}

// text returns the report in paragraphs and tables.
func (r report) text(now time.Time) []byte {
	out := &bytes.Buffer{}
	fmt.Fprintln(out, strings.Join(r.Summary, "\n"))
	if len(r.Needs) > 0 {
		fmt.Fprintf(out, "It needs: %s\n", strings.Join(r.Needs, "; "))
	}
	for _, c := range r.Containers {
		fmt.Fprintf(out, "\nContainer %s: %s\n", c.Name, strings.TrimSuffix(c.Reason+": "+c.Message, ": "))
		if c.Hint != "" {
			fmt.Fprintln(out, c.Hint)
		}
	}
	if e := r.Explanation; e != nil {
		writeTargets(out, e, now)
		writeAttempts(out, e.Attempts, now)
	}
	if r.Missing != "" {
		fmt.Fprintf(out, "\n%s\n", r.Missing)
	}
	if r.PodScheduled != "" {
		fmt.Fprintf(out, "\nThe pod's condition PodScheduled says: %s\n", r.PodScheduled)
	}
	if len(r.Events) > 0 {
		rows := make([][]string, 0, len(r.Events))
		for _, e := range r.Events {
			rows = append(rows, []string{age(e.LastSeen.Time, now), e.Reason, e.From, e.Message})
		}
		writeTable(out, "Events", []string{"LAST SEEN", "REASON", "FROM", "MESSAGE"}, rows)
	}
	return out.Bytes()
}

func writeTargets(out io.Writer, e *diagnosis.Explanation, now time.Time) {
	if len(e.Targets) == 0 {
		return
	}
	rows := make([][]string, 0, len(e.Targets))
	for i := range e.Targets {
		t := &e.Targets[i]
		rows = append(rows, []string{t.Name, t.Decision(), score(t), orNone(t.Reason)})
	}
	title := "Targets, as looked at " + age(e.Time.Time, now)
	writeTable(out, title, []string{"TARGET", "VERDICT", "SCORE", "REASON"}, rows)
	if e.OtherTargets > 0 {
		fmt.Fprintf(out, "and %d more that were not chosen\n", e.OtherTargets)
	}
}

// score is the total score with its parts.
func score(t *diagnosis.Target) string {
	if t.Score == nil {
		return none
	}
	var parts []string
	for _, plugin := range slices.Sorted(maps.Keys(t.Scores)) {
		if t.Scores[plugin] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", plugin, t.Scores[plugin]))
		}
	}
	total := strconv.FormatInt(*t.Score, 10)
	if len(parts) == 0 {
		return total
	}
	return total + " (" + strings.Join(parts, ", ") + ")"
}

func writeAttempts(out io.Writer, attempts []diagnosis.Attempt, now time.Time) {
	if len(attempts) == 0 {
		return
	}
	rows := make([][]string, 0, len(attempts))
	for i := range attempts {
		a := &attempts[i]
		rows = append(rows, []string{
			a.Target, orNone(a.Trial), age(a.Started.Time, now), lasted(a, now), string(a.Outcome), orNone(a.Reason),
		})
	}
	writeTable(out, "Tried", []string{"TARGET", "TRIAL", "STARTED", "FOR", "OUTCOME", "ANSWER"}, rows)
}

func lasted(a *diagnosis.Attempt, now time.Time) string {
	if a.Started.IsZero() {
		return none
	}
	if a.Ended.IsZero() {
		return diagnosis.Duration(now.Sub(a.Started.Time))
	}
	return diagnosis.Duration(a.Ended.Sub(a.Started.Time))
}

func writeTable(out io.Writer, title string, header []string, rows [][]string) {
	fmt.Fprintf(out, "\n%s:\n", title)
	table := printers.GetNewTabWriter(out)
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.Join(strings.Fields(row[i]), " ") // Line breaks and tabs would break the table.
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // out is a buffer.
}

func age(t, now time.Time) string {
	if t.IsZero() {
		return none
	}
	return duration.HumanDuration(now.Sub(t)) + " ago"
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
