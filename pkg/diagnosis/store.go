package diagnosis

import (
	"cmp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// What is remembered at most. Ten thousand different reasons are about a megabyte.
const (
	maxPods     = 2_000
	maxTargets  = 50_000
	maxBest     = 10
	maxAttempts = 20
	maxReasons  = 10_000
)

// Store keeps the explanations of the pods that were scheduled last. It is safe for concurrent use, and its memory is bounded: it forgets
// first the pods that it was not told of for longest.
type Store struct {
	clock clock.PassiveClock

	mu      sync.Mutex        // guards what follows
	pods    *lru.Cache        // of *Explanation by types.NamespacedName
	targets int               // how many there are in all of pods
	reasons map[string]string // pods of one Deployment share them
}

// NewStore makes an empty Store that takes its times from clock.
func NewStore(clock clock.PassiveClock) *Store {
	s := &Store{clock: clock, reasons: map[string]string{}}
	s.pods = lru.NewWithEvictionFunc(maxPods, func(_ lru.Key, value any) { s.targets -= len(value.(*Explanation).Targets) })
	return s
}

// Looked notes how all targets, in any order, looked to the pod, and what the scheduling cycle said if it chose none. The Store owns targets
// from then on.
func (s *Store) Looked(pod *corev1.Pod, message string, targets []Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(pod)
	slices.SortFunc(targets, better)
	kept := worthKeeping(targets)
	for i := range kept {
		kept[i].Reason = s.share(kept[i].Reason)
		if kept[i].Score != nil {
			kept[i].Score = new(*kept[i].Score) // The one that was given may be part of something large.
		}
	}
	s.targets += len(kept) - len(e.Targets)
	e.Message, e.Time = s.share(message), metav1.NewTime(s.clock.Now())
	e.Targets, e.OtherTargets = kept, len(targets)-len(kept)
	for s.targets > maxTargets && s.pods.Len() > 1 {
		s.pods.RemoveOldest()
	}
}

// Chose notes that the pod goes to a target of which alone the scheduling cycle took account: the one that it is tried in, or that has its
// delegate already. How the others last looked stays.
func (s *Store) Chose(pod *corev1.Pod, target, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(pod)
	e.Message = ""
	i := slices.IndexFunc(e.Targets, func(t Target) bool { return t.Name == target })
	if i < 0 {
		e.Targets, i = append(e.Targets, Target{Name: target, Node: node}), len(e.Targets)
		s.targets++
		e.Time = metav1.NewTime(s.clock.Now())
	}
	for j := range e.Targets {
		e.Targets[j].Chosen = i == j
	}
	slices.SortFunc(e.Targets, better)
}

// Started notes that a target is given the pod.
func (s *Store) Started(pod *corev1.Pod, target, trial string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(pod).add(Attempt{Target: target, Trial: trial, Started: metav1.NewMicroTime(s.clock.Now()), Outcome: Waiting})
}

// Waits notes what the target said so far, in the attempt that lasts: why it holds the pod back, say.
func (s *Store) Waits(pod *corev1.Pod, target, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(pod).lasting(target).Reason = s.share(reason)
}

// Ended notes what became of the attempt in target that lasts, or of one that an earlier leader started.
func (s *Store) Ended(pod *corev1.Pod, target string, outcome Outcome, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of(pod).lasting(target)
	a.Ended, a.Outcome, a.Reason = metav1.NewMicroTime(s.clock.Now()), outcome, s.share(reason)
}

// Bound notes that the pod was bound to a virtual node.
func (s *Store) Bound(pod *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of(pod)
	e.Node, e.Message = node, ""
}

// Get returns a copy of what is known of the pod of that name that was scheduled last.
func (s *Store) Get(pod types.NamespacedName) (Explanation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.pods.Get(pod)
	if !ok {
		return Explanation{}, false
	}
	return value.(*Explanation).deepCopy(), true
}

// of returns the pod's explanation. That of an earlier pod of the same name is forgotten.
func (s *Store) of(pod *corev1.Pod) *Explanation {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if value, ok := s.pods.Get(key); ok {
		if e := value.(*Explanation); e.UID == pod.UID {
			return e
		}
		s.pods.Remove(key)
	}
	e := &Explanation{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	s.pods.Add(key, e)
	return e
}

// share returns an equal string that others may have, too.
func (s *Store) share(reason string) string {
	if shared, ok := s.reasons[reason]; ok {
		return shared
	}
	if len(s.reasons) >= maxReasons {
		clear(s.reasons)
	}
	s.reasons[reason] = reason
	return reason
}

// lasting returns the attempt in target that lasts, a new one if there is none.
func (e *Explanation) lasting(target string) *Attempt {
	i := slices.IndexFunc(e.Attempts, func(a Attempt) bool { return a.Target == target && a.Outcome == Waiting })
	if i < 0 {
		e.add(Attempt{Target: target, Outcome: Waiting})
		i = len(e.Attempts) - 1
	}
	return &e.Attempts[i]
}

func (e *Explanation) add(a Attempt) {
	if len(e.Attempts) >= maxAttempts {
		e.Attempts = slices.Delete(e.Attempts, 0, 1)
	}
	e.Attempts = append(e.Attempts, a)
}

// worthKeeping leaves of the targets of a pod that goes to one of them the best.
func worthKeeping(targets []Target) []Target {
	if len(targets) <= maxBest || !targets[0].Chosen {
		return targets
	}
	return slices.Clone(targets[:maxBest])
}

// better compares two targets: the chosen one comes first, then those that can take the pod, by score, then those that may.
func better(a, b Target) int {
	return cmp.Or(cmp.Compare(class(&a), class(&b)), -compareScores(a.Score, b.Score), cmp.Compare(a.Name, b.Name))
}

func class(t *Target) int {
	switch {
	case t.Chosen:
		return 0
	case t.Trial != "":
		return 2
	case t.Reason != "":
		return 3
	default:
		return 1
	}
}

func compareScores(a, b *int64) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Compare(*a, *b)
}
