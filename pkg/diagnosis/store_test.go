package diagnosis

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func at(seconds int) time.Time { return time.Date(2030, 1, 2, 3, 4, seconds, 0, time.UTC) }

func pod(name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(uid)}}
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "team", Name: name}
}

// many returns n targets of which the one at chosen, if there is one, was chosen.
func many(n, chosen int) []Target {
	targets := make([]Target, n)
	for i := range targets {
		targets[i] = Target{Name: fmt.Sprintf("c%02d", i), Node: fmt.Sprintf("admiralty-c%02d", i), Chosen: i == chosen}
	}
	return targets
}

func TestStoreKeepsTheHistoryOfAPod(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(at(0))
	s := NewStore(clock)
	web := pod("web", "1")
	s.Looked(web, "", []Target{
		{Name: "c2", Node: "admiralty-c2", Chosen: true, Score: new(int64(7)), Scores: map[string]int64{"fit": 7}},
	})
	s.Started(web, "c2", "")
	clock.SetTime(at(2))
	s.Waits(web, "c2", "held back")
	s.Ended(web, "c2", Refused, "quota")
	clock.SetTime(at(3))
	s.Looked(web, "c2: quota", []Target{{Name: "c3", Node: "admiralty-c3", Trial: TrialGrow, Reason: "too small"}})
	s.Started(web, "c3", TrialGrow)
	s.Waits(web, "c3", "unschedulable")
	clock.SetTime(at(9))
	s.Ended(web, "c3", Bound, "")
	s.Bound(web, "admiralty-c3")

	got, ok := s.Get(key("web"))
	want := Explanation{
		Namespace: "team", Name: "web", UID: "1", Node: "admiralty-c3", Time: metav1.NewTime(at(3)),
		Targets: []Target{{Name: "c3", Node: "admiralty-c3", Trial: TrialGrow, Reason: "too small"}},
		Attempts: []Attempt{
			{
				Target: "c2", Started: metav1.NewMicroTime(at(0)), Ended: metav1.NewMicroTime(at(2)), Outcome: Refused,
				Reason: "quota",
			},
			{
				Target: "c3", Trial: TrialGrow, Started: metav1.NewMicroTime(at(3)), Ended: metav1.NewMicroTime(at(9)),
				Outcome: Bound,
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("found %v (-want +got):\n%s", ok, diff)
	}
}

func TestAttemptOfAnEarlierLeaderEndsWithoutABeginning(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	s.Ended(pod("web", "1"), "c2", Lost, "disconnected")
	got, _ := s.Get(key("web"))
	want := []Attempt{{Target: "c2", Ended: metav1.NewMicroTime(at(0)), Outcome: Lost, Reason: "disconnected"}}
	if diff := cmp.Diff(want, got.Attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func TestADroppedAttemptLeavesEarlierOnes(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	web := pod("web", "1")
	s.Ended(web, "c2", Refused, "quota")
	s.Started(web, "c2", "")
	s.Started(web, "c3", "")
	s.Dropped(web, "c2")
	got, _ := s.Get(key("web"))
	var attempts []string
	for _, a := range got.Attempts {
		attempts = append(attempts, a.Target+" "+string(a.Outcome))
	}
	if diff := cmp.Diff([]string{"c2 Refused", "c3 Waiting"}, attempts); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func TestStoreForgetsAnEarlierPodOfTheSameName(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	s.Looked(pod("web", "1"), "nowhere", many(5, -1))
	s.Started(pod("web", "2"), "c2", "")
	got, _ := s.Get(key("web"))
	if got.UID != "2" || got.Message != "" || len(got.Targets) != 0 || s.targets != 0 {
		t.Errorf("got %+v, and %d targets are counted", got, s.targets)
	}
}

func TestGetReturnsACopy(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	web := pod("web", "1")
	s.Looked(web, "", []Target{{Name: "c2", Score: new(int64(7)), Scores: map[string]int64{"fit": 7}}})
	s.Started(web, "c2", "")
	want, _ := s.Get(key("web"))
	got, _ := s.Get(key("web"))
	got.Targets[0].Name, *got.Targets[0].Score, got.Targets[0].Scores["fit"], got.Attempts[0].Target = "x", 1, 1, "x"
	again, _ := s.Get(key("web"))
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("a caller changed the stored explanation (-want +got):\n%s", diff)
	}
}

func TestStoreKeepsTheBestOrAllTargets(t *testing.T) {
	for name, test := range map[string]struct {
		targets      []Target
		kept, others int
		first, last  string
	}{
		"a pending pod keeps all targets":         {many(100, -1), 100, 0, "c00", "c99"},
		"a placed pod keeps the best ten targets": {many(100, 50), 10, 90, "c50", "c08"},
		"a placed pod keeps all of ten targets":   {many(10, 1), 10, 0, "c01", "c09"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
			s.Looked(pod("web", "1"), "", test.targets)
			got, _ := s.Get(key("web"))
			first, last := got.Targets[0].Name, got.Targets[len(got.Targets)-1].Name
			if len(got.Targets) != test.kept || got.OtherTargets != test.others || first != test.first ||
				last != test.last {
				t.Errorf("kept %d, from %s to %s, and %d others", len(got.Targets), first, last, got.OtherTargets)
			}
		})
	}
}

func TestBestTargetsComeFirst(t *testing.T) {
	scored := func(name string, score int64, chosen bool) Target {
		return Target{Name: name, Score: &score, Chosen: chosen}
	}
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	s.Looked(pod("web", "1"), "", []Target{
		{Name: "no-b", Reason: "small"}, {Name: "no-a", Reason: "small"},
		{Name: "may", Reason: "small", Trial: TrialGrow},
		scored("low", 1, false), scored("high", 9, false), scored("same", 9, true),
	})
	if diff := cmp.Diff([]string{"same", "high", "low", "may", "no-a", "no-b"}, names(s)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func names(s *Store) []string {
	e, _ := s.Get(key("web"))
	var names []string
	for i := range e.Targets {
		names = append(names, e.Targets[i].Name)
	}
	return names
}

func TestTrialKeepsTheOtherTargetsAsTheyWereLastSeen(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	web := pod("web", "1")
	s.Looked(web, "nowhere", []Target{
		{Name: "a", Reason: "small"}, {Name: "b", Reason: "small", Trial: TrialGrow}, {Name: "c", Trial: TrialUnsure},
	})
	s.Chose(web, "c", "admiralty-c")
	s.Chose(web, "b", "admiralty-b")
	got, _ := s.Get(key("web"))
	if diff := cmp.Diff([]string{"b", "c", "a"}, names(s)); diff != "" || !got.Targets[0].Chosen ||
		got.Targets[1].Chosen || got.Message != "" {
		t.Errorf("got %+v", got)
	}
	s.Chose(web, "new", "admiralty-new")
	if diff := cmp.Diff([]string{"new", "b", "c", "a"}, names(s)); diff != "" || s.targets != 4 {
		t.Errorf("%d targets are counted; order (-want +got):\n%s", s.targets, diff)
	}
}

func TestStoreKeepsTheLastTwentyAttempts(t *testing.T) {
	s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
	for i := range maxAttempts + 5 {
		s.Started(pod("web", "1"), fmt.Sprintf("c%d", i), "")
	}
	got, _ := s.Get(key("web"))
	if len(got.Attempts) != maxAttempts || got.Attempts[0].Target != "c5" {
		t.Errorf("%d attempts, the first in %s", len(got.Attempts), got.Attempts[0].Target)
	}
}

func TestStoreForgetsThePodsWhoseLastReportIsOldest(t *testing.T) {
	for name, test := range map[string]struct{ targets, known int }{
		"because there are too many pods":    {1, maxPods},
		"because there are too many targets": {100, maxTargets / 100},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
			first := pod("first", "1")
			s.Looked(first, "", many(test.targets, -1))
			for i := range test.known {
				s.Looked(pod(fmt.Sprintf("p%d", i), "1"), "", many(test.targets, -1))
				s.Started(first, "c2", "")
			}
			if s.pods.Len() != test.known || s.targets != test.known*test.targets {
				t.Errorf("%d pods with %d targets are known, want %d with %d", s.pods.Len(), s.targets, test.known,
					test.known*test.targets)
			}
			if _, ok := s.Get(key("first")); !ok {
				t.Error("the pod that was touched all the time is forgotten")
			}
			if _, ok := s.Get(key("p0")); ok {
				t.Error("the pod that was not touched is known")
			}
		})
	}
}

func TestExplanationAsJSON(t *testing.T) {
	e := Explanation{
		Namespace: "team", Name: "web", UID: "1", Message: "nowhere", Time: metav1.NewTime(at(1)), OtherTargets: 3,
		Targets: []Target{
			{Name: "c2", Node: "admiralty-c2", Reason: "full"},
			{Name: "c3", Node: "admiralty-c3", Chosen: true, Score: new(int64(0))},
		},
		Attempts: []Attempt{{Target: "c3", Trial: TrialUnsure, Started: metav1.NewMicroTime(at(1)), Outcome: Waiting}},
	}
	got, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"namespace":"team","name":"web","uid":"1","message":"nowhere","time":"2030-01-02T03:04:01Z",` +
		`"targets":[{"name":"c2","node":"admiralty-c2","reason":"full"},` +
		`{"name":"c3","node":"admiralty-c3","chosen":true,"score":0}],"otherTargets":3,` +
		`"attempts":[{"target":"c3","trial":"unsure","started":"2030-01-02T03:04:01.000000Z","outcome":"Waiting"}]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFullStoreIsSmall fills the Store with the worst case: no pod shares scores, attempts or reasons with another.
func TestFullStoreIsSmall(t *testing.T) {
	for name, test := range map[string]struct {
		chosen, targets, pods int
		mebibytes             uint64
	}{
		"full of placed pods":  {0, maxBest, maxPods, 32},
		"full of pending pods": {-1, 100, maxTargets / 100, 32},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			s := NewStore(clocktesting.NewFakePassiveClock(at(0)))
			for i := range test.pods {
				p := pod(fmt.Sprintf("p%d", i), fmt.Sprintf("uid-%d", i))
				targets := many(test.targets, test.chosen)
				for j := range targets {
					targets[j].Reason = fmt.Sprintf("no node has %d free CPUs (largest: %d), nor %d of "+
						"nvidia.com/gpu (largest: 0)", i, j, i)
					if test.chosen >= 0 {
						targets[j].Scores = map[string]int64{"a": 1, "b": 2, "c": 3, "d": 4}
					}
				}
				name := targets[0].Name
				s.Looked(p, fmt.Sprintf("pod %d fits nowhere", i), targets)
				for range maxAttempts {
					s.Ended(p, name, Refused, fmt.Sprintf("unschedulable: 0/%d nodes are available", i))
				}
			}
			if used := (heap() - before) >> 20; used > test.mebibytes {
				t.Errorf("it takes %d MiB, want at most %d", used, test.mebibytes)
			} else {
				t.Logf("it takes %d MiB", used)
			}
			if s.pods.Len() != test.pods {
				t.Errorf("%d pods are known, want %d", s.pods.Len(), test.pods)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestStoreKeepsTheBeginningOfLongTexts(t *testing.T) {
	s, web, long := NewStore(clocktesting.NewFakePassiveClock(at(0))), pod("web", "1"), strings.Repeat("x", 3<<20)
	s.Looked(web, long, []Target{{Name: "c1", Reason: long}})
	s.Waits(web, "c1", long+"1")
	s.Ended(web, "c2", Refused, long+"2")
	e, _ := s.Get(key("web"))
	if len(e.Message) != maxMessages || len(e.Targets[0].Reason) != maxReason {
		t.Errorf("a message of %d bytes, and a reason of %d", len(e.Message), len(e.Targets[0].Reason))
	}
	for _, a := range e.Attempts {
		if len(a.Reason) != maxReason {
			t.Errorf("a reason of %d bytes in %s", len(a.Reason), a.Target)
		}
	}
	if len(s.reasons) != 1 {
		t.Errorf("%d reasons are kept", len(s.reasons))
	}
}
