package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSets(t *testing.T) {
	for name, test := range map[string]struct {
		list, wrong string
		want        [][]string
	}{
		"several sets":                       {list: "c2;c1,c2,c3", want: [][]string{{"c2"}, {"c1", "c2", "c3"}}},
		"further targets":                    {list: "c2,+2", want: [][]string{{"c2", "again-1", "again-2"}}},
		"an unknown cluster":                 {list: "c2;c4", wrong: `"c4" is not a target: give some of c1, c2, c3`},
		"further targets that are no number": {list: "c2,+x", wrong: `"+x"`},
		"a further target by name":           {list: "again-1", wrong: `"again-1" is not a target`},
		"an empty text":                      {list: "", wrong: `"" is not a target`},
		"zero further targets":               {list: "c1,+0", wrong: "not a number of further targets"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseSets(test.list)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("got %v, want an error with %s", err, test.wrong)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestParsePodsAndScenarios(t *testing.T) {
	if got, err := parsePods("100, 500"); err != nil || !cmp.Equal(got, []int{100, 500}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, wrong := range []string{"", "0", "many"} {
		if _, err := parsePods(wrong); err == nil {
			t.Errorf("parsePods(%q): no error", wrong)
		}
	}
	want := map[string]bool{"burst": true, "drain": true}
	if got, err := parseScenarios("burst,drain"); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseScenarios("drian"); err == nil || !strings.Contains(err.Error(), "drain") {
		t.Errorf("a misspelt scenario: got %v, want an error that names the scenarios", err)
	}
}

func TestFurtherTargetsLeadToClustersThatAreNeverCutOff(t *testing.T) {
	clusters := map[string]int{}
	for _, target := range tenTargets() {
		clusters[leadsTo(target)]++
	}
	if diff := cmp.Diff(map[string]int{"c1": 4, "c2": 5, "c3": 1}, clusters); diff != "" {
		t.Errorf("targets by cluster (-want +got):\n%s", diff)
	}
}
