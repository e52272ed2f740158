package scheduling

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// objecting is a Follower that objects to every target.
type objecting struct{ noFollower }

func (objecting) Objection(_ *corev1.Pod, _, _ *engage.Target) string { return "a claim is elsewhere" }

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
			w.nodes = nodes(newNode("another", nil).Node(), node.Node())
			pod, state := newPod("p", nil), framework.NewCycleState()
			result, status := w.PreFilter(t.Context(), state, pod, nil)
			if left := result == nil; !status.IsSuccess() || left != test.want {
				t.Errorf("left %t, want %t: %v", left, test.want, status)
			}
		})
	}
}

func TestAPodLeavesAClosedTargetThatMayHaveItsPodChaperon(t *testing.T) {
	for name, closed := range map[string]bool{"it takes pods": false, "it is cordoned": true} {
		t.Run(name, func(t *testing.T) {
			fails := apierrors.NewInternalError(errors.New("down"))
			w := newWorld()
			w.plugin = newPlugin(Options{
				Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
				Sign: func(proof.Claim) (string, error) { return "signed", nil },
			})
			w.namespaces = namespaces("default")
			c1 := w.engage(t, "c1", interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return fails
				},
				Get: func(
					context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
				) error {
					return fails
				},
			})
			c2, pod := w.engage(t, "c2", interceptor.Funcs{}), newPod("p", list("cpu", "1"))
			waits := placement.Expectation{Waiting: func(placement.Wait, string) {}}
			if _, err := w.placer.Place(t.Context(), pod, c1.Target, waits); err == nil {
				t.Fatal("the pod is placed")
			}
			node := newNode(c1.NodeName, nil)
			node.Node().Spec.Unschedulable = closed
			w.nodes = nodes(node.Node())
			result, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
			if left := result == nil; !status.IsSuccess() || left != closed {
				t.Errorf("left: %t, %v", left, status)
			}
			want := fwk.QueueSkip
			if closed {
				want = fwk.Queue
			}
			if hint, err := w.hint(pod, c2); hint != want || err != nil {
				t.Errorf("another target with room: %v, %v", hint, err)
			}
		})
	}
}

func TestAPodLeavesAHolderThatLacksItsClaim(t *testing.T) {
	w := newWorld()
	holder := w.engage(t, "c1", interceptor.Funcs{})
	w.placer.Delegates.Seen(holder.Target, newChaperon("c", "p"))
	w.follower = objecting{}
	pod := newPod("p", nil)
	for _, claims := range []bool{false, true} {
		if claims {
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}}
		}
		result, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
		if left := result == nil; !status.IsSuccess() || left != claims {
			t.Errorf("with a claim: %t, left: %t, %v", claims, left, status)
		}
	}
}

func TestAPodThatLeavesIsPlacedWhenItsDelegateIsGone(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	chaperon := newChaperon("c", "p", schedulingtest.With(corev1.PodScheduled, corev1.ConditionFalse, "Gated", ""))
	if err := c1.Client.Create(t.Context(), chaperon); err != nil {
		t.Fatal(err)
	}
	w.placer.Delegates.Seen(c1.Target, chaperon)
	pod, state := newPod("p", list("cpu", "1")), framework.NewCycleState()
	cordoned, other := newNode(c1.NodeName, nil), newNode(c2.NodeName, nil)
	cordoned.Node().Spec.Unschedulable = true
	w.nodes = nodes(cordoned.Node())
	if _, status := w.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := w.Filter(t.Context(), state, pod, other); !status.IsSuccess() {
		t.Fatal(status)
	}
	c, err := readCycle(state)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- w.vacate(t.Context(), c, pod, c2) }()
	eventually(t, "the request for the end", func() bool {
		now := chaperon.DeepCopy()
		err := c1.Client.Get(t.Context(), client.ObjectKeyFromObject(chaperon), now)
		return err == nil && ending.Begun(now)
	})
	select {
	case err := <-done:
		t.Fatalf("the pod is placed elsewhere, while its delegate may run: %v", err)
	default:
	}
	w.placer.Delegates.Gone(c1.Target, chaperon)
	if err := receive(t, "the end of the wait", done); err != nil {
		t.Error(err)
	}
	if memory, _ := w.attempts.Of(pod); len(memory.Moves) > 0 {
		t.Errorf("the pod has moved: %v", memory.Moves)
	}
}

func TestAPodThatCannotLeaveBacksOff(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	chaperon := newChaperon("c", "p")
	if err := c1.Client.Create(t.Context(), chaperon); err != nil {
		t.Fatal(err)
	}
	w.placer.Delegates.Seen(c1.Target, chaperon.DeepCopy())
	schedulingtest.With(corev1.PodScheduled, corev1.ConditionTrue, "", "")(chaperon)
	if err := c1.Client.Status().Update(t.Context(), chaperon); err != nil { // The cache does not show this yet.
		t.Fatal(err)
	}
	pod, state := newPod("p", list("cpu", "1")), framework.NewCycleState()
	cordoned := newNode(c1.NodeName, nil)
	cordoned.Node().Spec.Unschedulable = true
	w.nodes = nodes(cordoned.Node())
	if _, status := w.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := w.Filter(t.Context(), state, pod, newNode(c2.NodeName, nil)); !status.IsSuccess() {
		t.Fatal(status)
	}
	// kube-scheduler gives a pod that it could not bind because of an error its back-off.
	status := w.Bind(t.Context(), state, pod, c2.NodeName)
	if status.Code() != fwk.Error || invited(status.AsError()) {
		t.Errorf("the pod is scheduled again at once: %v, %v", status.Code(), status.AsError())
	}
}

func TestAPodThatLeavesGoesWhereItFits(t *testing.T) {
	w := newWorld()
	c1, c2, c3 := w.engage(t, "c1", interceptor.Funcs{}), w.empty(t, "c2"), w.growing(t, "c3")
	w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p"))
	pod, silent := newPod("p", list("cpu", "1")), newNode(c1.NodeName, nil)
	silent.Node().Spec.Taints = []corev1.Taint{{Key: v1alpha1.TaintSilent, Effect: corev1.TaintEffectNoSchedule}}
	w.nodes = nodes(silent.Node())
	passes := func(all ...*target) (passing []string) {
		t.Helper()
		state := framework.NewCycleState()
		result, status := w.PreFilter(t.Context(), state, pod, nil)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		for _, at := range all {
			node := newNode(at.NodeName, resources("64", "64Gi"))
			if (result.AllNodes() || result.NodeNames.Has(at.NodeName)) &&
				w.Filter(t.Context(), state, pod, node).IsSuccess() {
				passing = append(passing, at.NodeName)
			}
		}
		_, _ = w.PostFilter(t.Context(), state, pod, nil)
		return passing
	}
	// The target that the pod leaves is for pods that tolerate its taint, which other plugins decide.
	if got := passes(c1, c2, c3); !slices.Equal(got, []string{c1.NodeName}) {
		t.Errorf("without room elsewhere: %v", got)
	}
	if got := passes(c1, c2, c3); !slices.Equal(got, []string{c3.NodeName}) {
		t.Errorf("in the trial that followed: %v", got)
	}
	if hint, err := w.hint(pod, c2); hint != fwk.QueueSkip || err != nil {
		t.Errorf("a full target wakes the pod: %v, %v", hint, err)
	}
	c2.Ledger.Update(summary(resources("8", "64Gi")))
	if hint, err := w.hint(pod, c2); hint != fwk.Queue || err != nil {
		t.Errorf("a target with room does not wake the pod: %v, %v", hint, err)
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

func TestAPodForWhichNobodyWaitsIsWokenWhenItsDelegateIsScheduled(t *testing.T) {
	scheduled := schedulingtest.With(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	gated := schedulingtest.With(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")
	for name, test := range map[string]struct {
		seen    []func(*v1alpha1.PodChaperon)
		happens func(w *world, pod *corev1.Pod, c1 *target)
		want    []types.UID
	}{
		"it is scheduled":         {seen: []func(*v1alpha1.PodChaperon){gated, scheduled}, want: []types.UID{"p"}},
		"it is not scheduled":     {seen: []func(*v1alpha1.PodChaperon){gated, gated}},
		"it is scheduled already": {seen: []func(*v1alpha1.PodChaperon){scheduled, scheduled}, want: []types.UID{"p"}},
		"the pod is bound": {
			seen: []func(*v1alpha1.PodChaperon){gated, scheduled},
			happens: func(w *world, pod *corev1.Pod, _ *target) {
				w.placer.Delegates.Concluded(pod.UID, placement.ProxyBound)
			},
		},
		"somebody waits": {
			seen: []func(*v1alpha1.PodChaperon){gated, scheduled},
			happens: func(w *world, pod *corev1.Pod, c1 *target) {
				w.waitsIn(t, pod, c1, corev1.PodReasonSchedulingGated)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pods, pod := newWorld(), &playedQueue{}, newPod("p", list("cpu", "1"))
			w.waker.started(pods, klog.Background())
			c1 := w.growing(t, "c1")
			s := &Scheduler{plugin: w.plugin, clock: w.clock}
			for i, status := range test.seen {
				if s.chaperonSeen(c1, newChaperon("c-p", pod.UID, status)); i == 0 && test.happens != nil {
					test.happens(w, pod, c1)
				}
			}
			if diff := cmp.Diff(test.want, pods.woken()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
