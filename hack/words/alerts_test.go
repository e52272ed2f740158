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
	metrics = "docs/operations.md"
)

// rules are a file of rules for Prometheus.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Annotations struct{ Summary, Runbook string }
		}
	}
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
	var file rules
	if err := yaml.Unmarshal([]byte(read(t, alerts)), &file); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			for _, name := range metric.FindAllString(rule.Expr, -1) {
				used[name] = true
				if _, ok := wanted[name]; !ok {
					t.Errorf("%s: rule %s uses %s, which %s does not explain", alerts, rule.Alert, name, metrics)
				}
			}
			page, section, _ := strings.Cut(rule.Annotations.Runbook, "#")
			if rule.Annotations.Summary == "" || !slices.Contains(sections(t, "docs/"+page), section) {
				t.Errorf("%s: rule %s needs a summary, and a section as runbook", alerts, rule.Alert)
			}
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
