package words

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	alerts  = "docs/alerts.yaml"
	helpers = "charts/multicluster-scheduler/templates/_helpers.tpl"
	metrics = "docs/operations.md"
)

// rules are a file of rules for Prometheus.
type rules struct {
	Groups []struct{ Rules []rule }
}

type rule struct {
	Alert, Expr string
	Annotations struct{ Summary, Runbook string }
}

func allRules(t *testing.T) []rule {
	t.Helper()
	var file rules
	if err := yaml.Unmarshal([]byte(read(t, alerts)), &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// TestEachAlertOfTheMetricsTableHasARule also checks that the rules use metrics of the table, and refer to sections.
func TestEachAlertOfTheMetricsTableHasARule(t *testing.T) {
	metric := regexp.MustCompile(`(multicluster_scheduler|leader_election)_[a-z_]+`)
	wanted := map[string]bool{} // by metric, whether the table says that somebody is to be alerted
	for line := range strings.SplitSeq(read(t, metrics), "\n") {
		if name := metric.FindString(line); strings.HasPrefix(line, "| `"+name) && name != "" {
			wanted[name] = strings.Contains(line, "Alert")
		}
	}
	used := map[string]bool{}
	for _, rule := range allRules(t) {
		for _, name := range metric.FindAllString(rule.Expr, -1) {
			used[name] = true
			if _, ok := wanted[name]; !ok {
				t.Errorf("%s: rule %s uses %s, which %s does not explain", alerts, rule.Alert, name, metrics)
			}
		}
		if rule.Annotations.Summary == "" || !isSection(t, rule.Annotations.Runbook) {
			t.Errorf("%s: rule %s needs a summary, and a section as runbook", alerts, rule.Alert)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if wanted[name] && !used[name] {
			t.Errorf("%s says when to be alerted by %s, and %s has no rule", metrics, name, alerts)
		}
	}
	if len(used) == 0 {
		t.Errorf("%s has no rules", alerts)
	}
}

// TestSummariesOfAlertsReferToSections looks for PAGE.md#SECTION.
func TestSummariesOfAlertsReferToSections(t *testing.T) {
	reference := regexp.MustCompile(`[\w/-]+\.md#[\w-]+`)
	found := 0
	for _, rule := range allRules(t) {
		for _, name := range reference.FindAllString(rule.Annotations.Summary, -1) {
			found++
			if !isSection(t, name) {
				t.Errorf("%s: the summary of %s refers to %s, which does not exist", alerts, rule.Alert, name)
			}
		}
	}
	if found == 0 {
		t.Errorf("no summary refers to a section")
	}
}

// TestTheAlertOnTheLeaderNamesTheManagersLease compares the label name with the ID of the leader election: the name
// that the chart gives the Lease in release multicluster-scheduler. Other managers export this metric, too.
func TestTheAlertOnTheLeaderNamesTheManagersLease(t *testing.T) {
	chart := struct{ Name string }{}
	if err := yaml.Unmarshal([]byte(read(t, "charts/multicluster-scheduler/Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	suffix := only(t, helpers, `\.managerName" -}}\n{{ include "multicluster-scheduler\.fullname" \. }}(-[a-z-]+)\n`)
	only(t, helpers, `\nleaderElection:\n(?:  .*\n)*?  name: ({{ include "multicluster-scheduler.managerName" \. }})\n`)
	only(t, "pkg/manager/manager.go", `\n\t+LeaderElectionID: +(config\.LeaderElection\.Name),\n`)
	selector := `leader_election_master_status{name="` + chart.Name + suffix + `"}`
	selects := func(r rule) bool { return strings.Contains(r.Expr, selector) }
	if all := allRules(t); !slices.ContainsFunc(all, selects) {
		t.Errorf("%s: no rule uses %s", alerts, selector)
	}
	for _, r := range allRules(t) {
		if strings.Contains(r.Expr, "leader_election_master_status") && !selects(r) {
			t.Errorf("%s: rule %s counts leaders of others, too: %s", alerts, r.Alert, r.Expr)
		}
	}
	if !strings.Contains(read(t, metrics), chart.Name+suffix) {
		t.Errorf("%s does not say that the label name is %s", metrics, chart.Name+suffix)
	}
}

// only returns what the group of an expression matches in a file, which has to be in one place.
func only(t *testing.T, path, expression string) string {
	t.Helper()
	found := regexp.MustCompile(expression).FindAllStringSubmatch(read(t, path), -1)
	if len(found) != 1 {
		t.Fatalf("%s: %d places match %s", path, len(found), expression)
	}
	return found[0][1]
}

// isSection says whether PAGE.md#SECTION exists.
func isSection(t *testing.T, reference string) bool {
	t.Helper()
	page, section, _ := strings.Cut(reference, "#")
	return slices.Contains(sections(t, "docs/"+page), section)
}

// sections returns the anchors of a page's headings.
func sections(t *testing.T, page string) []string {
	t.Helper()
	unwanted := regexp.MustCompile("[^a-z0-9 -]")
	var all []string
	for line := range strings.SplitSeq(read(t, page), "\n") {
		if heading, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			all = append(all, strings.ReplaceAll(unwanted.ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
		}
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
