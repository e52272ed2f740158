package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestAllCasesCanBeRead(t *testing.T) {
	cases, err := allCases()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.topic == "" || c.what == "" || c.begin == nil || c.see == nil {
			t.Errorf("case %s is not complete", c.name)
		}
		if len(c.name) > 40 {
			t.Errorf("the name of case %s is too long for a namespace", c.name)
		}
	}
}

func TestTheShortFormHasCasesOfEachTopic(t *testing.T) {
	cases, err := allCases()
	if err != nil {
		t.Fatal(err)
	}
	short, all := map[string]int{}, map[string]int{}
	for _, c := range cases {
		all[c.topic]++
		if c.short {
			short[c.topic]++
		}
	}
	for topic := range all {
		if short[topic] == 0 {
			t.Errorf("the short form has no case of the topic %q", topic)
		}
	}
	together, alone, missed := selected(cases, true, regexp.MustCompile(""), false)
	if len(missed) > 0 {
		t.Errorf("%s needs containerd 2, which the short form does not have", missed[0].name)
	}
	if len(alone) > 0 {
		t.Errorf("%s runs by itself, which takes long: it cannot be in the short form", alone[0].name)
	}
	if n := len(together); n >= len(cases)/2 {
		t.Errorf("the short form has %d cases of %d, which is too many", n, len(cases))
	}
}

func TestEachJustificationCanBeRead(t *testing.T) {
	if _, err := justifications(differencesFile); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"no reason":       `[{name: a, cases: .*, field: a, kind: design}]`,
		"an unknown kind": `[{name: a, cases: .*, field: a, kind: other, why: b}]`,
		"a bad pattern":   `[{name: a, cases: "(", field: a, kind: design, why: b}]`,
		"an unknown key":  `[{name: a, cases: .*, field: a, kind: design, why: b, other: c}]`,
	} {
		if _, err := justifications([]byte(content)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestDifferencesOfTwoVersionsDoNotCountForOne(t *testing.T) {
	list, err := justifications(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	one := ofOneVersion(list)
	if len(one) == len(list) {
		t.Error("there is no such difference")
	}
	for i, j := range list {
		if counts := i < len(one) && one[i] == j; counts == j.TwoVersions {
			t.Errorf("%q counts for one version: %t. Those of two versions must be the last ones, "+
				"or numbers would change", j.Name, counts)
		}
	}
}

func TestFieldsThatDifferAreFound(t *testing.T) {
	condition := func(name, status string) tree { return tree{"type": name, "status": status} }
	plain := tree{
		"phase":      "Running",
		"conditions": []any{condition("Ready", "True"), condition("Initialized", "True")},
		"args":       []any{"a", "b"}, "only": tree{"plain": 1.0}, "same": "same",
	}
	elected := tree{
		"phase":      "Pending",
		"conditions": []any{condition("Initialized", "True"), condition("Ready", "False")},
		"args":       []any{"a", "c"}, "same": "same",
	}
	want := []difference{
		{"args[1]", `"b"`, `"c"`},
		{"conditions.Ready.status", `"True"`, `"False"`},
		{"only", `{"plain":1}`, absent},
		{"phase", `"Running"`, `"Pending"`},
	}
	if diff := cmp.Diff(want, compare(plain, elected)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestOnlyMatchingDifferencesAreJustified(t *testing.T) {
	list, err := justifications([]byte(
		`[{name: scheduler, cases: "a|b", field: spec\.x, plain: '"1"', elected: '"2"', kind: design, why: because}]`))
	if err != nil {
		t.Fatal(err)
	}
	of := difference{"spec.x", `"1"`, `"2"`}
	for name, test := range map[string]struct {
		of        string
		found     difference
		justified bool
	}{
		"the difference":         {"a", of, true},
		"of another case":        {"c", of, false},
		"of a longer name":       {"ab", of, false},
		"of another field":       {"a", difference{"spec.xy", `"1"`, `"2"`}, false},
		"with another value":     {"a", difference{"spec.x", `"1"`, `"3"`}, false},
		"with another plain one": {"a", difference{"spec.x", `"0"`, `"2"`}, false},
	} {
		by, rest := justified(list, test.of, []difference{test.found})
		if (len(by) == 1) != test.justified || (len(rest) == 0) != test.justified {
			t.Errorf("%s: justified by %v, rest %v", name, by, rest)
		}
	}
}

func TestAFullRunFailsWithoutEachDifference(t *testing.T) {
	always, sometimes := &justification{Name: "always"}, &justification{Name: "sometimes", Sometimes: true}
	list := []*justification{always, sometimes}
	say := func(string, ...any) {}
	with := []result{{testCase: &testCase{}, by: []*justification{always}}}
	without := []result{{testCase: &testCase{}}}
	differing := []result{{testCase: &testCase{}, by: []*justification{always}, rest: []difference{{}}}}
	broken := []result{{testCase: &testCase{}, broken: errDifferences}}
	for name, test := range map[string]struct {
		results      []result
		full, failed bool
	}{
		"each difference was seen":             {with, true, false},
		"a difference was not seen":            {without, true, true},
		"a difference was not seen in a part":  {without, false, false},
		"a difference has no justification":    {differing, false, true},
		"a case does not work with plain pods": {broken, false, true},
	} {
		if got := decide(test.results, list, test.full, say); got != test.failed {
			t.Errorf("%s: failed is %t", name, got)
		}
	}
}

func TestWhatIsUpToChanceOnABusyNodeIsJustified(t *testing.T) {
	list, err := justifications(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	const lost = `"unable to retrieve container logs for CONTAINER-ID"`
	for _, test := range []struct {
		of        string
		found     difference
		justified bool
	}{
		{"sidecar", difference{"events.Unhealthy", absent, `"Warning"`}, true},
		{"probe-readiness-fails", difference{"events.Unhealthy", absent, `"Warning"`}, false},
		{"logs-previous", difference{"previous.prints", `"run 1\n"`, lost}, true},
		{"logs-previous", difference{"previous.prints", lost, `"run 1\n"`}, true},
		{"logs-previous", difference{"previous.prints", `"run 1\n"`, `"run 2\n"`}, false},
	} {
		if _, rest := justified(list, test.of, []difference{test.found}); (len(rest) == 0) != test.justified {
			t.Errorf("%s: %v is justified: %t", test.of, test.found, len(rest) == 0)
		}
	}
	const message = `MountVolume.SetUp failed for volume "data": failed to sync configmap cache: timed out waiting`
	if !late.MatchString(message) || late.MatchString(`configmap "data" not found`) {
		t.Error("not the right events are left out")
	}
}

func TestTextsAreNormalised(t *testing.T) {
	n := newNormaliser("ns-p")
	n.add("10.0.0.1", "POD-IP")
	n.add("10.0.0.11", "HOST-IP")
	n.add("c1-node", "NODE")
	for text, want := range map[string]string{
		"web.ns-p.svc":                         "web.NAMESPACE.svc",
		"10.0.0.1, 10.0.0.11, 10.0.0.12":       "POD-IP, HOST-IP, IP",
		"GET / from 10.0.0.12:34567":           "GET / from IP:PORT",
		"at 2026-11-23T07:15:00Z on c1-node":   "at TIME on NODE",
		"10f4a0c2-0000-4000-8000-00000000000a": "UID",
		"kube-api-access-x7x2z":                "kube-api-access-RANDOM",
		"-rw-r--r-- 0:0 1023 bytes /all/token": "-rw-r--r-- 0:0 BYTES /all/token",
		"-rw-r--r-- 0:0 5 bytes /all/password": "-rw-r--r-- 0:0 5 bytes /all/password",
	} {
		if got := n.text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestAManifestMayLeaveOutFieldsThatAreUpToChance(t *testing.T) {
	seen := tree{"status": tree{"containerStatuses": []any{tree{"name": "main", "restartCount": 2.0, "ready": true}}}}
	remove(seen, strings.Split("status/containerStatuses/main/restartCount", "/"))
	want := tree{"status": tree{"containerStatuses": []any{tree{"name": "main", "ready": true}}}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestValuesOfPodsAreFound(t *testing.T) {
	pod := tree{"status": tree{"phase": "Running", "conditions": []any{tree{"type": "Ready", "status": "True"}}}}
	for value, holds := range map[string]bool{
		"{.status.phase}=Running":                                  true,
		"{.status.phase}=Pending":                                  false,
		`{.status.conditions[?(@.type=="Ready")].status}=True`:     true,
		`{.status.conditions[?(@.type=="Ready")].status}=False`:    false,
		"{.status.missing}=":                                       true,
		"{.status.missing}=x":                                      false,
		"{.status.phase}":                                          false,
		`{.status.conditions[?(@.type=="Missing")].status}=`:       true,
		`{.status.conditions[?(@.type=="Initialized")].status}=No`: false,
	} {
		if err := hasAll(pod, []string{value}); (err == nil) != holds {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestWhatKubectlLogsAboutItselfIsNotCompared(t *testing.T) {
	const printed = "E1129 15:54:38.587969   17439 websocket.go:521] \"Websocket Ping failed\" err=\"close sent\"\n" +
		"Error from server: no such pod\n"
	if got := logged.ReplaceAllString(printed, ""); got != "Error from server: no such pod\n" {
		t.Errorf("left is %q", got)
	}
}

func TestPlainPodsAreNotTakenForElectedOnes(t *testing.T) {
	plain := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName}}
	proxy := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName}}
	for _, test := range []struct {
		pod     *corev1.Pod
		elected bool
		fails   bool
	}{{plain, false, false}, {plain, true, true}, {proxy, true, false}, {proxy, false, true}} {
		if err := (&side{elected: test.elected}).ofSide(test.pod); (err != nil) != test.fails {
			t.Errorf("scheduler %s, elected %t: %v", test.pod.Spec.SchedulerName, test.elected, err)
		}
	}
}
