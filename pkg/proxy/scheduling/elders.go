package scheduling

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// leastPatience is how long an elder waits at least for targets that are not connected: as long as it takes, at
	// most, to notice that a target is lost.
	leastPatience = 50 * time.Second
	// doubt is how much earlier than the pod a target must have been lost, so that it cannot have the pod's delegate.
	// The two times are from different clocks of the source.
	doubt = time.Minute
	// listElders is how long to wait until the elders are listed again after an error.
	listElders = 2 * time.Second
)

// elders are the pods that were not bound when this leader began. An earlier leader may have placed their delegates,
// which may be in any target that this leader has not reached yet. An elder is not placed before all of these targets
// were engaged once, or its patience has ended: the time for which it would stay on a virtual node that is not Ready. A
// target that refuses the elder's namespace counts as reached only when it says that it has nothing there.
//
// Pods are known by name, because the next pod of an elder's name must wait for the elder's delegate, too. It is safe
// for concurrent use.
type elders struct {
	targets client.Reader // of (Cluster)Targets; nil if nobody waits
	clock   clock.WithDelayedExecution

	mu      sync.RWMutex // guards the fields below
	began   time.Time
	created map[types.NamespacedName]time.Time // empty once there is nothing to wait for
	engaged sets.Set[types.NamespacedName]     // the targets that were engaged once, and read everywhere
	timed   sets.Set[types.UID]                // the pods that are woken when their patience ends
	// readings are the last engagements of the other targets, and read the namespaces in which their delegates were
	// known once.
	readings map[types.NamespacedName]*reading
	read     sets.Set[corner]
}

// corner is a namespace in a target.
type corner struct {
	target    types.NamespacedName
	namespace string
}

func newElders(targets client.Reader, c clock.WithDelayedExecution) *elders {
	return &elders{
		targets: targets, clock: c, engaged: sets.New[types.NamespacedName](), timed: sets.New[types.UID](),
		readings: map[types.NamespacedName]*reading{}, read: sets.New[corner](),
	}
}

// list finds the elders. It asks the API server for the newest state, because a cache may lag. It returns when it has
// the answer, or ctx ends.
func (e *elders) list(ctx context.Context, clientset kubernetes.Interface) {
	if e.targets == nil {
		return
	}
	for ctx.Err() == nil {
		created, err := unboundProxies(ctx, clientset)
		if err == nil {
			e.mu.Lock()
			e.began, e.created = e.clock.Now(), created
			e.mu.Unlock()
			return
		}
		log.FromContext(ctx).Error(err, "Pods are not placed before those are listed that have no target yet")
		pause.For(ctx, e.clock, listElders)
	}
}

// unboundProxies returns when each pod was created that is to be placed.
func unboundProxies(
	ctx context.Context, clientset kubernetes.Interface,
) (created map[types.NamespacedName]time.Time, err error) {
	created = map[types.NamespacedName]time.Time{}
	unbound := metav1.ListOptions{FieldSelector: fields.AndSelectors(
		fields.OneTermEqualSelector("spec.schedulerName", v1alpha1.SchedulerName),
		fields.OneTermEqualSelector("spec.nodeName", ""),
	).String()}
	page := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
		defer cancel()
		return clientset.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
	}
	err = pager.New(page).EachListItem(ctx, unbound, func(o runtime.Object) error {
		if pod, ok := o.(*corev1.Pod); ok && translate.IsProxy(pod) {
			created[client.ObjectKeyFromObject(pod)] = pod.CreationTimestamp.Time
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing pods that are not bound: %w", err)
	}
	return created, nil
}

// includes says whether the pod has the name of an elder, as long as there may be something to wait for.
func (e *elders) includes(pod *corev1.Pod) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	_, elder := e.created[client.ObjectKeyFromObject(pod)]
	if !elder {
		return false
	}
	patience, ends := patienceOf(pod)
	return !ends || e.clock.Since(e.began) < patience
}

// waits says, for users to read, for which targets the pod waits, or returns an empty string. again, which is called
// once, is to ask again when the pod's patience ends.
func (e *elders) waits(ctx context.Context, pod *corev1.Pod, again func()) (reason string, err error) {
	if !e.includes(pod) {
		return "", nil
	}
	all, err := e.allTargets(ctx)
	if err != nil {
		return "", err
	}
	mayHave := e.open(all, pod)
	if len(mayHave) == 0 {
		return "", nil
	}
	reason = fmt.Sprintf("waits for %s, where an earlier manager may have placed the pod", strings.Join(mayHave, ", "))
	if patience, ends := patienceOf(pod); ends {
		until := e.wakeAfter(pod.UID, patience, again)
		reason += ", until " + until.UTC().Format(time.TimeOnly) + " UTC at most" // It must not change each time.
	}
	return reason, nil
}

// open returns the names of the targets that were not reached, and may have the pod's delegate.
func (e *elders) open(all map[types.NamespacedName]v1alpha1.TargetStatus, pod *corev1.Pod) (mayHave []string) {
	reached := true
	created := e.createdAt(pod)
	for key, status := range all {
		if e.hasReached(key, pod.Namespace) {
			continue
		}
		reached = false
		if mayHaveDelegate(status, created) && (key.Namespace == "" || key.Namespace == pod.Namespace) {
			mayHave = append(mayHave, targetkind.Name(key))
		}
	}
	if reached {
		e.forget(pod.Namespace)
	}
	slices.Sort(mayHave)
	return mayHave
}

func (e *elders) createdAt(pod *corev1.Pod) time.Time {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.created[client.ObjectKeyFromObject(pod)]
}

// forget forgets the elders of a namespace when all targets are reached. Targets that come later cannot have delegates
// that an earlier leader placed.
func (e *elders) forget(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.created, func(elder types.NamespacedName, _ time.Time) bool {
		return elder.Namespace == namespace
	})
}

// wakeAfter calls again, once, when a pod's patience ends. It returns when this is.
func (e *elders) wakeAfter(pod types.UID, patience time.Duration, again func()) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := e.began.Add(patience)
	if !e.timed.Has(pod) {
		e.timed.Insert(pod)
		e.clock.AfterFunc(until.Sub(e.clock.Now()), again)
	}
	return until
}

// allTargets returns the statuses of all (Cluster)Targets, from a cache.
func (e *elders) allTargets(ctx context.Context) (map[types.NamespacedName]v1alpha1.TargetStatus, error) {
	targets, err := targetkind.List(ctx, e.targets, "", client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	all := make(map[types.NamespacedName]v1alpha1.TargetStatus, len(targets))
	for _, target := range targets {
		all[client.ObjectKeyFromObject(target)] = targetkind.Status(target)
	}
	return all, nil
}

// mayHaveDelegate says whether an earlier leader may have placed a pod in a target that this leader has not reached.
// Not if the target was never connected, or was lost before the pod was created.
func mayHaveDelegate(status v1alpha1.TargetStatus, created time.Time) bool {
	connected := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected)
	switch {
	case connected == nil || connected.Status != metav1.ConditionFalse:
		return true // It may have been made again under the name of an earlier one.
	case status.KubernetesVersion == "":
		return false // It was never connected.
	default:
		return connected.LastTransitionTime.Add(doubt).After(created)
	}
}

// patienceOf returns for how long a pod would stay on a node that is not Ready, and whether this ends.
func patienceOf(pod *corev1.Pod) (patience time.Duration, ends bool) {
	tolerated, seconds := false, int64(-1)
	for _, t := range pod.Spec.Tolerations {
		if (t.Key != "" && t.Key != corev1.TaintNodeNotReady) ||
			(t.Effect != "" && t.Effect != corev1.TaintEffectNoExecute) {
			continue
		}
		tolerated = true
		if s := t.TolerationSeconds; s != nil && (seconds < 0 || *s < seconds) {
			seconds = max(*s, 0)
		}
	}
	if tolerated && seconds < 0 {
		return 0, false
	}
	return max(leastPatience, time.Duration(seconds)*time.Second), true
}
