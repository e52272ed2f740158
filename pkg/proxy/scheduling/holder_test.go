package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
)

// objecting is a Follower that objects to every target.
type objecting struct{ noFollower }

func (objecting) Objection(*corev1.Pod, *engage.Target) string { return "a claim is elsewhere" }

func TestAHolderPassesAllFilters(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, holder *target)
		want    string
	}{
		"it passes": {func(*world, *target) {}, ""},
		"it may not have pods of the namespace": {
			func(_ *world, holder *target) { holder.Key.Namespace = "other" }, "takes no pods of namespace default",
		},
		"it is left out": {func(w *world, holder *target) {
			w.refuse(newPod("p", nil), holder.NodeName, attempts.FixedTime, "refused: quota")
		}, "refused: quota"},
		"it lacks a claim": {func(w *world, _ *target) { w.follower = objecting{} }, "a claim is elsewhere"},
		"it is out of reach, and another target holds nothing": {
			func(w *world, holder *target) { w.registry.Lose(holder.Target.Target) }, "not reachable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			holder := w.engage(t, "c1", interceptor.Funcs{})
			w.placer.Delegates.Seen(holder.Target, newChaperon("c", "p"))
			test.happens(w, holder)
			pod, state := newPod("p", list("cpu", "4")), framework.NewCycleState()
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
			result, status := w.PreFilter(t.Context(), state, pod, nil)
			if !status.IsSuccess() || result != nil && !result.NodeNames.Equal(sets.New(holder.NodeName)) {
				t.Fatalf("PreFilter: %v, %v", result, status)
			}
			status = w.Filter(t.Context(), state, pod, newNode(holder.NodeName, nil))
			if got := status.Message(); got != test.want {
				t.Errorf("reason is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAPodLeavesAHolderThatTakesNoPods(t *testing.T) {
	closed := func(node *corev1.Node) { node.Spec.Unschedulable = true }
	for name, test := range map[string]struct {
		happens   func(node *corev1.Node)
		scheduled bool
		want      bool
	}{
		"it takes pods":    {func(*corev1.Node) {}, false, false},
		"it is cordoned":   {closed, false, true},
		"it has scheduled": {closed, true, false},
		"its manager is silent": {func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintSilent, Effect: corev1.TaintEffectNoSchedule}}
		}, false, true},
		"it does not answer well": {func(node *corev1.Node) {
			taint := corev1.Taint{Key: v1alpha1.TaintUnresponsive, Effect: corev1.TaintEffectNoSchedule}
			node.Spec.Taints = []corev1.Taint{taint}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			holder := w.engage(t, "c1", interceptor.Funcs{})
			chaperon := newChaperon("c", "p")
			if test.scheduled {
				chaperon.Status.Conditions = []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				}
			}
			w.placer.Delegates.Seen(holder.Target, chaperon)
			node := newNode(holder.NodeName, nil)
			test.happens(node.Node())
			pod, state := newPod("p", nil), framework.NewCycleState()
			result, status := w.PreFilter(t.Context(), state, pod, []fwk.NodeInfo{newNode("another", nil), node})
			if left := result == nil; !status.IsSuccess() || left != test.want {
				t.Errorf("left %t, want %t: %v", left, test.want, status)
			}
		})
	}
}

func TestAnOrphanHoldsNoPod(t *testing.T) {
	w := newWorld()
	holder := w.engage(t, "c1", interceptor.Funcs{})
	s := &Scheduler{plugin: w.plugin, clock: w.clock}
	chaperon := newChaperon("c", "p")
	s.chaperonSeen(holder, chaperon)
	if has := w.placer.Delegates.Has(holder.Target, "p"); !has {
		t.Fatal("the PodChaperon is not seen")
	}
	orphan := chaperon.DeepCopy()
	orphan.Annotations = map[string]string{"multicluster.admiralty.io/orphan": ""} // as the gate marks it
	s.chaperonSeen(holder, orphan)
	if has := w.placer.Delegates.Has(holder.Target, "p"); has {
		t.Error("an orphan holds its pod")
	}
}
