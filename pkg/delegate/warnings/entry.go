package warnings

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// repeatAfter is the time between two writes of one PodChaperon because warnings were repeated.
	repeatAfter = 10 * time.Second
	// firstAfter is the time between two writes of one PodChaperon because there are new reasons.
	firstAfter = time.Second
)

// entry has the warnings of one delegate.
type entry struct {
	chaperon types.UID // of the PodChaperon
	latest   []corev1.PodCondition
	shown    []corev1.PodCondition
	shownAt  time.Time
}

// note adds a warning, unless it is known, or others are newer.
func (e *entry) note(warning corev1.PodCondition) {
	e.latest = translate.NewestWarnings(append([]corev1.PodCondition{warning}, e.latest...)...)
}

// wait returns the time until the latest warnings may be shown, and false if they are shown already.
func (e *entry) wait(now time.Time) (time.Duration, bool) {
	if equality.Semantic.DeepEqual(e.latest, e.shown) {
		return 0, false
	}
	pause := repeatAfter
	if e.hasFirst() {
		pause = firstAfter
	}
	return max(e.shownAt.Add(pause).Sub(now), 0), true
}

// hasFirst says whether there is a reason that is not shown. A delegate that has had as many reasons as are shown has
// no first ones any more: whoever writes events may invent reasons.
func (e *entry) hasFirst() bool {
	if len(e.shown) >= translate.MaxWarnings {
		return false
	}
	for i := range e.latest {
		if translate.PodCondition(e.shown, e.latest[i].Type) == nil {
			return true
		}
	}
	return false
}

func (e *entry) show(now time.Time) { e.shown, e.shownAt = e.latest, now }
