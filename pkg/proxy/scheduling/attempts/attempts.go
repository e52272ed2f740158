package attempts

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Attempts remembers pods that are not bound yet. It is safe for concurrent use.
type Attempts struct {
	clock  clock.WithDelayedExecution
	lifted func(key types.NamespacedName, pod types.UID)

	mu    sync.Mutex // guards the fields below and all in them
	byPod map[types.UID]*record
	// excluded are the exclusions that hold now, by their targets' nodes.
	excluded map[string]sets.Set[*exclusion]
}

// record is all that is remembered of a pod.
type record struct {
	// demand is that of the pod at this resource version.
	demand  *fit.Demand
	version string
	// exclusions of targets, by their nodes' names.
	exclusions map[string]*exclusion
	// trial is the one that the pod is in, and prospects those of all targets among which it was chosen, by their
	// nodes' names.
	trial     Trial
	prospects map[string]Prospect
	// trialEnded says that a trial ended, and no other one began.
	trialEnded bool
	// disturbed is the node of the target that preempts, or has preempted, other pods for this one.
	disturbed string
	stay      Stay
}

// New makes Attempts that remember nothing. lifted is called, without a lock, when time has passed and a target is no
// longer left out for a pod.
func New(c clock.WithDelayedExecution, lifted func(key types.NamespacedName, pod types.UID)) *Attempts {
	return &Attempts{
		clock: c, lifted: lifted, byPod: map[types.UID]*record{}, excluded: map[string]sets.Set[*exclusion]{},
	}
}

// Memory is what is known of a pod when it is scheduled. Targets are named by their nodes.
type Memory struct {
	Demand *fit.Demand
	// LeftOut says why targets are left out. NoNode are those of them whose schedulers found no node, although they
	// had shown room. Turns are how often targets had the pod in vain: they refused the pod, or the pod moved away.
	// Moves are how often it moved away. All are nil if empty.
	LeftOut map[string]string
	NoNode  map[string]bool
	Turns   map[string]int
	Moves   map[string]int
	// Stay is the pod's wait in a target.
	Stay Stay
	// Trial is the one that the pod is in, and Disturbed the node of the target that preempts, or has preempted, other
	// pods for it.
	Trial     Trial
	Disturbed string
}

// Of returns what is known of a pod. It fails if the pod's own constraints cannot be read.
func (a *Attempts) Of(pod *corev1.Pod) (Memory, error) {
	memory, known := a.recall(pod)
	if known {
		return memory, nil
	}
	constraints, err := translate.DelegateConstraints(pod)
	if err != nil {
		return Memory{}, fmt.Errorf("reading the pod's own constraints: %w", err)
	}
	memory.Demand = fit.NewDemand(pod, constraints)
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.recordOf(pod)
	r.demand, r.version = memory.Demand, pod.ResourceVersion
	return memory, nil
}

// recall returns what is known of a pod, and whether its demand is known, too. All queueing hints of all pods come
// here, so that demands are computed without the lock.
func (a *Attempts) recall(pod *corev1.Pod) (memory Memory, demandKnown bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.recordOf(pod)
	memory = Memory{Trial: r.trial, Disturbed: r.disturbed, Stay: r.stay}
	r.recallTargets(&memory)
	if r.demand == nil || r.version != pod.ResourceVersion || pod.ResourceVersion == "" {
		return memory, false
	}
	memory.Demand = r.demand
	return memory, true
}

// Failure is what an attempt that failed showed.
type Failure struct {
	// NodeName of the target in which the pod was placed.
	NodeName string
	// Refused says that the target refused the pod, for this Reason. It is left out for the pod as BackOff says.
	Refused bool
	Reason  string
	BackOff BackOff
	// MoreRoom says that the target has shown more room since it refused.
	MoreRoom bool
	// Lost says that the target cannot be reached.
	Lost bool
	// Preempts says that the target preempts, or has preempted, other pods for this one.
	Preempts bool
}

// Failed remembers an attempt that failed, which ends the pod's stay. A refusal and a loss end the pod's trial, too.
func (a *Attempts) Failed(pod *corev1.Pod, failure Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.recordOf(pod)
	r.stay = Stay{}
	if failure.Preempts {
		r.disturbed = failure.NodeName
	}
	if failure.Refused {
		a.exclude(r, pod, failure)
	}
	if failure.Refused || failure.Lost {
		r.endTrial()
	}
}

// Forget forgets a pod that is bound or gone.
func (a *Attempts) Forget(pod types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.byPod[pod]
	if !ok {
		return
	}
	for _, x := range r.exclusions {
		a.lift(x)
	}
	delete(a.byPod, pod)
}

// recordOf must be called with the lock held.
func (a *Attempts) recordOf(pod *corev1.Pod) *record {
	r, ok := a.byPod[pod.UID]
	if !ok {
		r = &record{}
		a.byPod[pod.UID] = r
	}
	return r
}
