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

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// The bounds of the Store. Ten thousand different reasons take about a megabyte, and ten if all have maxReason bytes.
const (
	maxPods     = 2_000
	maxTargets  = 50_000
	maxBest     = 10
	maxAttempts = 20
	maxReasons  = 10_000
	maxReason   = 1 << 10  // bytes of a reason, which may be a target's
	maxMessages = 16 << 10 // bytes of a message about all targets
)

// Store keeps the explanations of the pods that were scheduled last. It is safe for concurrent use. Its memory is
// bounded: it forgets first the pods whose last report is oldest.
type Store struct {
	clock clock.PassiveClock

	mu      sync.Mutex        // guards the fields below
	pods    *lru.Cache        // of *Explanation by types.NamespacedName
	targets int               // the number of Targets in all explanations
	reasons map[string]string // interned, because the pods of one Deployment share reasons
}

// NewStore makes an empty Store that takes its times from clock.
func NewStore(clock clock.PassiveClock) *Store {
	s := &Store{clock: clock, reasons: map[string]string{}}
	s.pods = lru.NewWithEvictionFunc(maxPods, func(_ lru.Key, value any) {
		s.targets -= len(value.(*Explanation).Targets)
	})
	return s
}

// Looked reports all targets as the scheduler saw them for the pod, in any order, and the scheduling cycle's message if
// the cycle chose none. The Store owns the slice from then on.
func (s *Store) Looked(pod *corev1.Pod, message string, targets []Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.explanation(pod)
	slices.SortFunc(targets, better)
	kept := worthKeeping(targets)
	for i := range kept {
		kept[i].Reason = s.intern(kept[i].Reason)
		if kept[i].Score != nil {
			kept[i].Score = new(*kept[i].Score) // The caller's may be part of something large.
		}
	}
	s.targets += len(kept) - len(e.Targets)
	e.Message, e.Time = s.internMessage(message), metav1.NewTime(s.clock.Now())
	e.Targets, e.OtherTargets = kept, len(targets)-len(kept)
	for s.targets > maxTargets && s.pods.Len() > 1 {
		s.pods.RemoveOldest()
	}
}

// Chose reports that the pod goes to the only target that the scheduling cycle considered: the target of its trial, or
// the target that has its delegate already. The Store keeps the other targets as they were last seen.
func (s *Store) Chose(pod *corev1.Pod, target, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.explanation(pod)
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

// Started reports that an attempt to place the pod in a target begins.
func (s *Store) Started(pod *corev1.Pod, target, trial string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := metav1.NewMicroTime(s.clock.Now())
	s.explanation(pod).add(Attempt{Target: target, Trial: trial, Started: now, Outcome: Waiting})
}

// Waits reports the target's answer so far in the attempt that lasts, for example why it holds the delegate back.
func (s *Store) Waits(pod *corev1.Pod, target, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explanation(pod).lasting(target).Reason = s.intern(reason)
}

// Ended reports the outcome of the attempt that lasts in the target. An earlier leader may have started it.
func (s *Store) Ended(pod *corev1.Pod, target string, outcome Outcome, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.explanation(pod).lasting(target)
	a.Ended, a.Outcome, a.Reason = metav1.NewMicroTime(s.clock.Now()), outcome, s.intern(reason)
}

// Dropped reports that the attempt that lasts in the target came to nothing, for a reason that is not the target's.
func (s *Store) Dropped(pod *corev1.Pod, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.explanation(pod)
	e.Attempts = slices.DeleteFunc(e.Attempts, func(a Attempt) bool {
		return a.Target == target && a.Outcome == Waiting
	})
}

// Stopped reports why the pod does not go to the target that was chosen, for a reason that is not the target's.
func (s *Store) Stopped(pod *corev1.Pod, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.explanation(pod).Message = s.internMessage(message)
}

// Bound reports that the pod was bound to a virtual node.
func (s *Store) Bound(pod *corev1.Pod, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.explanation(pod)
	e.Node, e.Message = node, ""
}

// Get returns a copy of the explanation of the last pod of that name.
func (s *Store) Get(pod types.NamespacedName) (Explanation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.pods.Get(pod)
	if !ok {
		return Explanation{}, false
	}
	return value.(*Explanation).deepCopy(), true
}

// explanation returns the pod's explanation. It forgets the explanation of an earlier pod of the same name.
func (s *Store) explanation(pod *corev1.Pod) *Explanation {
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

// intern returns an equal string, or the beginning of a long one: one and the same for all explanations.
func (s *Store) intern(reason string) string {
	reason = translate.Shorten(reason, maxReason)
	if shared, ok := s.reasons[reason]; ok {
		return shared
	}
	if len(s.reasons) >= maxReasons {
		clear(s.reasons)
	}
	s.reasons[reason] = reason
	return reason
}

// internMessage does the same, but a message that is longer than a reason is not shared.
func (s *Store) internMessage(message string) string {
	if len(message) > maxReason {
		return translate.Shorten(message, maxMessages)
	}
	return s.intern(message)
}

// lasting returns the attempt that lasts in the target. If there is none, it adds one.
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

// worthKeeping returns the best targets if one of them was chosen, and all targets otherwise.
func worthKeeping(targets []Target) []Target {
	if len(targets) <= maxBest || !targets[0].Chosen {
		return targets
	}
	return slices.Clone(targets[:maxBest])
}

// better sorts the chosen target first, then the targets that can take the pod, by score, then those that perhaps can.
func better(a, b Target) int {
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), -compareScores(a.Score, b.Score), cmp.Compare(a.Name, b.Name))
}

func rank(t *Target) int {
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
