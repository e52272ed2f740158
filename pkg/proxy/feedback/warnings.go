package feedback

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// warnAgainAfter is the least time between two records of the same warning about one delegate.
	warnAgainAfter = 10 * time.Second
	// warningsPerSecond is how many warnings of one target are recorded, after warningsBurst. Others wait.
	warningsPerSecond, warningsBurst = 5, 200
	// warnLater is how long a warning waits that the budget does not allow.
	warnLater = 30 * time.Second

	// A kubelet gives these reasons if a volume or a variable needs an object that is not there, and in other cases.
	reasonFailedMount, reasonFailed = "FailedMount", "Failed"
)

// seenWarnings are the warnings of one PodChaperon that need not be recorded any more.
type seenWarnings struct {
	chaperon types.UID
	byType   map[corev1.PodConditionType]seenWarning
}

type seenWarning struct {
	at       time.Time // as the target says
	message  string
	recorded time.Time // zero if an earlier leader may have recorded it
}

// warnings are those that a decision found in the status of a PodChaperon.
type warnings struct {
	fresh []corev1.PodCondition
	// seen are those that were recorded, or are not to be.
	seen seenWarnings
}

// warn finds the warnings that are to be recorded. Of a proxy that is older than this leader, an earlier leader may
// have recorded what the first look finds.
func (p *plan) warn(s state, chaperon *v1alpha1.PodChaperon) {
	all, _ := translate.Warnings(chaperon.Status.Conditions)
	before, known := s.warned.byType, s.warned.chaperon == chaperon.UID
	if !known {
		before = nil
	}
	elder := s.proxy.CreationTimestamp.Time.Before(s.began)
	if len(all) == 0 && len(before) == 0 && (known || !elder) {
		return
	}
	p.warnings = &warnings{seen: seenWarnings{chaperon.UID, map[corev1.PodConditionType]seenWarning{}}}
	for i := range all {
		p.warnOf(s, &all[i], before, !known && elder)
	}
}

// warnOf finds whether one warning is to be recorded: now, later, or never because an earlier leader may have done so.
// A target may say any time, so another time than before counts as newer.
func (p *plan) warnOf(
	s state, c *corev1.PodCondition, before map[corev1.PodConditionType]seenWarning, perhapsRecorded bool,
) {
	seen := p.warnings.seen.byType
	was, saw := before[c.Type]
	if saw {
		seen[c.Type] = was
	}
	switch left := was.recorded.Add(warnAgainAfter).Sub(s.now); {
	case saw && was.at.Equal(c.LastTransitionTime.Time) && was.message == c.Message:
	case perhapsRecorded:
		seen[c.Type] = seenWarning{at: c.LastTransitionTime.Time, message: c.Message}
	case saw && left > 0:
		p.waitFor(left)
	default:
		p.warnings.fresh = append(p.warnings.fresh, *c)
	}
}

// warn records warnings, as far as the budget of the target goes.
func (r *reconciler) warn(proxy *corev1.Pod, p *plan) {
	now := r.options.Clock.Now()
	for _, c := range p.warnings.fresh {
		if !r.budget.AllowN(now, 1) {
			p.waitFor(warnLater)
			break
		}
		r.feedback.recordWarning(proxy, c, r.target.NodeName)
		p.warnings.seen.byType[c.Type] = seenWarning{c.LastTransitionTime.Time, c.Message, now}
		if c.Reason == reasonFailedMount || c.Reason == reasonFailed {
			r.options.CannotStart(proxy, r.target)
		}
	}
	r.feedback.warned.note(proxy, r.target.Key, p.warnings.seen)
}

// recordWarning records an event about the delegate. The recorder counts events of the same action and reason, and
// keeps the first one's text. So the action tells texts apart. Their number is bounded: a target chooses them.
func (f *Feedback) recordWarning(proxy *corev1.Pod, c corev1.PodCondition, node string) {
	action := engage.EventAction("FollowDelegate", c.Message)
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, c.Reason, action,
		"%s (virtual node %s)", c.Message, node)
}

// warned remembers, for all targets, which warnings about delegates need not be recorded any more. It outlives the
// engagements of targets.
type warned struct {
	mu      sync.Mutex // guards the fields below
	began   time.Time  // when this process began to lead
	byProxy map[types.NamespacedName]warnedProxy
}

type warnedProxy struct {
	uid      types.UID
	byTarget map[types.NamespacedName]seenWarnings
}

// begin is called when there is something to look at. The first call counts.
func (w *warned) begin(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() {
		w.began = now
	}
}

// of returns what is remembered of a proxy in a target, and since when this process leads.
func (w *warned) of(proxy *corev1.Pod, target types.NamespacedName) (seenWarnings, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.byProxy[types.NamespacedName{Namespace: proxy.Namespace, Name: proxy.Name}]
	if p.uid != proxy.UID {
		return seenWarnings{}, w.began
	}
	return p.byTarget[target], w.began
}

// note replaces what is remembered.
func (w *warned) note(proxy *corev1.Pod, target types.NamespacedName, seen seenWarnings) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := types.NamespacedName{Namespace: proxy.Namespace, Name: proxy.Name}
	if w.byProxy == nil {
		w.byProxy = map[types.NamespacedName]warnedProxy{}
	}
	if w.byProxy[key].uid != proxy.UID {
		w.byProxy[key] = warnedProxy{proxy.UID, map[types.NamespacedName]seenWarnings{}}
	}
	w.byProxy[key].byTarget[target] = seen
}

// forget is called when a proxy is gone.
func (w *warned) forget(proxy types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byProxy, proxy)
}
