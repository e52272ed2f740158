package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
)

// scoringHandle scores nodes by two plugins.
type scoringHandle struct {
	fwk.Handle

	scores map[string]int64 // by node; the other plugin gives one point to each
	err    error
	asked  *[]string // for which nodes
}

func (h scoringHandle) RunScorePlugins(
	_ context.Context, _ fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo,
) ([]fwk.NodePluginScores, *fwk.Status) {
	var all []fwk.NodePluginScores
	for _, node := range nodes {
		name := node.Node().Name
		*h.asked = append(*h.asked, name)
		all = append(all, fwk.NodePluginScores{
			Name: name, TotalScore: h.scores[name] + 1,
			Scores: []fwk.PluginScore{{Name: Name, Score: h.scores[name]}, {Name: "Other", Score: 1}},
		})
	}
	return all, fwk.AsStatus(h.err)
}

func TestAChoiceIsExplained(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, c1 *target, c *cycle)
		scored  []string // nodes
		fails   error
		want    []diagnosis.Target
	}{
		"two targets could have the pod, and a third one could grow": {
			scored: []string{"admiralty-c1", "admiralty-c2"},
			want: []diagnosis.Target{
				{Name: "c1", Node: "admiralty-c1", Chosen: true, Score: new(int64(8)), Scores: scoresOf(7)},
				{Name: "c2", Node: "admiralty-c2", Score: new(int64(6)), Scores: scoresOf(5)},
				{Name: "admiralty-c3", Node: "admiralty-c3", Reason: "full", Trial: "grow"},
			},
		},
		"only one target could have the pod": {want: []diagnosis.Target{
			{Name: "c1", Node: "admiralty-c1", Chosen: true},
			{Name: "admiralty-c3", Node: "admiralty-c3", Reason: "full", Trial: "grow"},
		}},
		"the scores are not known": {
			scored: []string{"admiralty-c1", "admiralty-c2"}, fails: errors.New("no scores"),
			want: []diagnosis.Target{
				{Name: "c1", Node: "admiralty-c1", Chosen: true},
				{Name: "admiralty-c3", Node: "admiralty-c3", Reason: "full", Trial: "grow"},
			},
		},
		"the target has the pod's delegate": {
			happens: func(_ *world, c1 *target, c *cycle) { c.holder = c1.Target },
			scored:  []string{"admiralty-c1", "admiralty-c2"},
			want:    []diagnosis.Target{{Name: "c1", Node: "admiralty-c1", Chosen: true}},
		},
		"the pod is tried in the target": {
			happens: func(_ *world, c1 *target, c *cycle) { c.Trial = in(c1.NodeName, attempts.Grow) },
			want:    []diagnosis.Target{{Name: "c1", Node: "admiralty-c1", Chosen: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", nil)
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			w.engage(t, "c2", interceptor.Funcs{})
			w.handle = scoringHandle{
				scores: map[string]int64{"admiralty-c1": 7, "admiralty-c2": 5}, err: test.fails, asked: new([]string),
			}
			c, state := &cycle{Memory: attempts.Memory{Demand: w.demandOf(t, pod)}}, framework.NewCycleState()
			c.object("admiralty-c3", "full")
			c.addCandidate(candidate{Trial: in("admiralty-c3", attempts.Grow)})
			for _, nodeName := range test.scored {
				c.feasible = append(c.feasible, newNode(nodeName, nil))
				c.scores = append(c.scores, fwk.NodeScore{Name: nodeName})
			}
			if test.happens != nil {
				test.happens(w, c1, c)
			}
			state.Write(Name, c)
			if status := w.Reserve(t.Context(), state, pod, c1.NodeName); !status.IsSuccess() {
				t.Fatal(status)
			}
			explained, _ := (&Scheduler{plugin: w.plugin}).Explain(client.ObjectKeyFromObject(pod))
			if diff := cmp.Diff(test.want, explained.Targets); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func scoresOf(ours int64) map[string]int64 { return map[string]int64{Name: ours, "Other": 1} }

func TestOnlyTheBestScoresAndThatOfTheChosenOneAreComputedAgain(t *testing.T) {
	w, pod, state := newWorld(), newPod("p", nil), framework.NewCycleState()
	var asked []string
	w.handle = scoringHandle{asked: &asked}
	c := &cycle{}
	var want []string
	for n := range 30 {
		name := fmt.Sprintf("n-%02d", n)
		c.feasible = append(c.feasible, newNode(name, nil))
		c.scores = append(c.scores, fwk.NodeScore{Name: name, Score: int64(n)})
		if n == 3 || n > 20 { // The chosen one, and the best nine of the others.
			want = append(want, name)
		}
	}
	looked := w.scored(t.Context(), state, c, pod, "n-03")
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("scored (-want +got):\n%s", diff)
	}
	var names []string
	for _, at := range looked {
		names = append(names, at.Node)
	}
	slices.Sort(names)
	if unique := len(slices.Compact(slices.Clone(names))); len(names) != 30 || unique != 30 {
		t.Errorf("%d targets are reported, %d of them once", len(names), unique)
	}
}
