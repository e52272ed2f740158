package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// important is the class of pods that preempt others, and importance its priority. All clusters have it.
	important  = "important"
	importance = 1000
	// stopTime is how long a preempted pod takes to end.
	stopTime = time.Second
)

// setPriority sets a new pod's priority, as admission does.
func setPriority(pod *corev1.Pod) {
	if pod.Spec.PriorityClassName == important {
		priority := int32(importance)
		pod.Spec.Priority = &priority
	}
}

// newPreemption makes kube-scheduler's plugin, of which the decisions are used, and not the writes.
func newPreemption(
	ctx context.Context, profile *config.KubeSchedulerProfile, handle fwk.Handle,
) (*defaultpreemption.DefaultPreemption, error) {
	for _, c := range profile.PluginConfig {
		if c.Name == names.DefaultPreemption {
			return defaultpreemption.New(ctx, c.Args, handle, feature.Features{})
		}
	}
	return nil, fmt.Errorf("the default configuration has none of %s", names.DefaultPreemption)
}

// preemption is the end of some pods of a node for another.
type preemption struct {
	node    string
	victims []*corev1.Pod
}

// preempt chooses the pods that are to end for a pod that fits nowhere. The pod's node is kept for it meanwhile. It
// must be called with the lock held.
func (k *kube) preempt(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *preemption {
	pod = k.nominated.in(pod)
	if k.waitsForOthers(ctx, pod) {
		return nil
	}
	delete(k.nominated, pod.UID)
	chosen := k.candidate(ctx, state, pod)
	if chosen == nil {
		return nil
	}
	info, err := framework.NewPodInfo(pod)
	k.must(err)
	k.nominated.set(info, chosen.node)
	return chosen
}

// waitsForOthers says whether pods are ending for this one, or it may preempt none. It must be called with the lock
// held.
func (k *kube) waitsForOthers(ctx context.Context, pod *corev1.Pod) bool {
	may, _ := k.preemption.PodEligibleToPreemptOthers(ctx, pod, fwk.NewStatus(fwk.Unschedulable))
	return !may
}

// candidate returns the pods that could end for a pod that fits nowhere, or nil. It must be called with the lock held.
func (k *kube) candidate(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *preemption {
	nodes, err := k.snapshot.NodeInfos().List()
	k.must(err)
	if len(nodes) == 0 {
		return nil
	}
	offset, most := k.preemption.GetOffsetAndNumCandidates(int32(len(nodes)))
	evaluator := k.preemption.Evaluator
	candidates, _, err := evaluator.DryRunPreemption(ctx, state, pod, nodes, nil, offset, most)
	k.must(err)
	best := evaluator.SelectCandidate(ctx, candidates)
	if best == nil {
		return nil
	}
	return &preemption{node: best.Name(), victims: best.Victims().Pods}
}

// end ends a pod because another is more important.
func (k *kube) end(victim *corev1.Pod) {
	_, _ = k.store.update(refOf(victim), func(o client.Object) bool {
		now, ok := o.(*corev1.Pod)
		if !ok || now.UID != victim.UID || now.DeletionTimestamp != nil {
			return false
		}
		at := metav1.Now()
		now.DeletionTimestamp = &at
		now.Status.Conditions = append(now.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
		})
		return true
	})
	time.AfterFunc(stopTime, func() {
		_ = k.store.remove(refOf(victim), &metav1.Preconditions{UID: &victim.UID})
	})
}

// nominations are the pods for which others end on a node. The scheduler's lock guards them.
type nominations map[types.UID]nomination

type nomination struct {
	info fwk.PodInfo
	node string
}

// in returns the pod as one that waits for its node, if it does.
func (n nominations) in(pod *corev1.Pod) *corev1.Pod {
	known, ok := n[pod.UID]
	if !ok {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = known.node
	return pod
}

// set nominates a pod.
func (n nominations) set(info fwk.PodInfo, node string) {
	pod := info.GetPod()
	n[pod.UID] = nomination{info: info, node: node}
}

// NominatedPodsForNode returns the pods that wait for a node.
func (n nominations) NominatedPodsForNode(node string) []fwk.PodInfo {
	var pods []fwk.PodInfo
	for _, known := range n {
		if known.node == node {
			pods = append(pods, known.info)
		}
	}
	return pods
}

// AddNominatedPod is not used by the decisions.
func (nominations) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}

// DeleteNominatedPodIfExists is not used by the decisions.
func (nominations) DeleteNominatedPodIfExists(*corev1.Pod) {}

// UpdateNominatedPod is not used by the decisions.
func (nominations) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo) {}
