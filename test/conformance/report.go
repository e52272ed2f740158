package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/page"
)

// report is what docs/compatibility.md says of a full run.
type report struct {
	results        []result
	list           []*justification
	source, target string // versions of Kubernetes
	on             time.Time
}

// write replaces the tables of a page, if there is a path.
func (r report) write(path string) error {
	if path == "" {
		return nil
	}
	return page.Write(path, "test/conformance", r.text())
}

func (r report) text() string {
	manifests, actions := r.split()
	parts := []string{
		r.summary(manifests, actions), "## Differences\n\n" + r.differences(),
		"## Manifests\n\n" + r.table(manifests), "## Verbs and controllers\n\n" + r.table(actions),
		"## Fields of pods\n\n" + r.fields(manifests),
	}
	return strings.Join(parts, "\n")
}

// split returns the results of manifests and of actions.
func (r report) split() (manifests, actions []result) {
	for _, res := range r.results {
		if len(res.fields) > 0 {
			manifests = append(manifests, res)
		} else {
			actions = append(actions, res)
		}
	}
	return manifests, actions
}

func (r report) summary(manifests, actions []result) string {
	same := 0
	for _, res := range r.results {
		if len(r.own(res)) == 0 {
			same++
		}
	}
	return fmt.Sprintf("Source: Kubernetes %s. Target: Kubernetes %s. Run on %s.\n\n"+
		"Of %d manifests and %d actions, %d are the same but for the differences that all pods have. "+
		"%d differ in more.\n",
		r.source, r.target, r.on.Format("2 January 2006"), len(manifests), len(actions), same, len(r.results)-same)
}

// common says whether a difference is one of all pods.
func (r report) common(j *justification) bool { return j.Cases == ".*" }

// own returns the numbers of the differences of a case that are not those of all pods.
func (r report) own(res result) []string {
	var own []string
	for _, j := range res.by {
		if !r.common(j) {
			own = append(own, r.number(j))
		}
	}
	if len(res.rest) > 0 || res.broken != nil {
		own = append(own, "**not explained**")
	}
	slices.Sort(own)
	return own
}

func (r report) number(j *justification) string {
	return fmt.Sprintf("D%02d", slices.Index(r.list, j)+1)
}

func (r report) differences() string {
	var text strings.Builder
	text.WriteString("| | of | what | why |\n|---|---|---|---|\n")
	for _, j := range r.list {
		of := "some"
		if r.common(j) {
			of = "all pods"
		}
		why := j.Why
		if j.Kind == notYet {
			why = "**Does not work yet.** " + why
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s |\n", r.number(j), of, j.Name, oneLine(why))
	}
	return text.String()
}

// table lists results by topic.
func (r report) table(results []result) string {
	sorted := slices.Clone(results)
	slices.SortStableFunc(sorted, func(a, b result) int { return strings.Compare(a.topic, b.topic) })
	var text strings.Builder
	topic := ""
	for _, res := range sorted {
		if res.topic != topic {
			topic = res.topic
			fmt.Fprintf(&text, "\n### %s\n\n| case | what | elected pods |\n|---|---|---|\n", topic)
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", res.name, oneLine(res.what), outcome(r.own(res)))
	}
	return strings.TrimPrefix(text.String(), "\n")
}

func outcome(own []string) string {
	if len(own) == 0 {
		return "the same"
	}
	return "differ: " + strings.Join(own, ", ")
}

// fields lists each field that a manifest sets, with the differences of the manifests that set it.
func (r report) fields(manifests []result) string {
	using := map[string][]result{}
	for _, res := range manifests {
		for _, field := range res.fields {
			using[field] = append(using[field], res)
		}
	}
	var text strings.Builder
	text.WriteString("| field | manifests | elected pods |\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(using)) {
		fmt.Fprintf(&text, "| `%s` | %d | %s |\n", field, len(using[field]), r.outcomeOf(using[field]))
	}
	return text.String()
}

// outcomeOf says "the same" if one manifest with the field has no difference of its own. Else all have: the field may
// be the reason.
func (r report) outcomeOf(results []result) string {
	all := map[string]bool{}
	for _, res := range results {
		own := r.own(res)
		if len(own) == 0 {
			return "the same"
		}
		for _, number := range own {
			all[number] = true
		}
	}
	return outcome(slices.Sorted(maps.Keys(all)))
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
