package target

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

const (
	healthInterval = 10 * time.Second
	healthTimeout  = 5 * time.Second
	// minMisses is how many checks must have failed when a target is lost, deadAfter after its last answer.
	minMisses = 2
	// A check ends noticedAfter after the last answer, unless it began less than leastCheck before. So a target is lost
	// at most noticedAfter and leastCheck after its last answer, within the grace period of nodes.
	noticedAfter = 45 * time.Second
	leastCheck   = 2 * time.Second
)

// health is the result of the latest health checks of an engaged target.
type health struct {
	answered time.Time // when the last check without an error heard of the target, or the engagement
	misses   int
	since    time.Time // the first miss
	lost     bool
}

// after returns the health after one more check. A check without an error heard of the target at a time.
func (h health) after(err error, heard, now time.Time) health {
	if err == nil {
		return health{answered: heard}
	}
	if h.misses == 0 {
		h.since = now
	}
	h.misses++
	h.lost = h.lost || h.misses >= minMisses && now.Sub(h.answered) >= deadAfter
	return h
}

// within returns for how long a check that begins now may wait, if its requests allow it.
func (h health) within(now time.Time) time.Duration {
	return max(leastCheck, noticedAfter-now.Sub(h.answered))
}

// condition returns the condition of a lost target whose last check failed with err.
func (h health) condition(err error, key types.NamespacedName, w want) metav1.Condition {
	condition := failedCondition(err, key, w)
	condition.Message = fmt.Sprintf("since %s, %s", h.since.UTC().Format(time.RFC3339), condition.Message)
	return condition
}

// condition returns the condition of an engaged target that answers.
func (e *engagement) condition(w want, version string, invalid *gate.ForgedError) metav1.Condition {
	reason := v1alpha1.ReasonConnected
	version = wire.Shorten(version, maxVersion)
	message := "connected to " + w.config.Host + ", Kubernetes " + version + clocksText(e.ahead)
	if e.unproved {
		message += "; it says that it is this cluster itself, which is not proved, so it is treated as another " +
			"cluster; if it is so, set spec.self: true in place of spec.kubeconfigSecret"
	}
	if e.sharedWith != "" {
		message += fmt.Sprintf("; cluster %q uses the same user there, so nothing protects this cluster from copies, "+
			"and no pod is fenced; connect with a user of its own", e.sharedWith)
	}
	if invalid != nil {
		reason = v1alpha1.ReasonInvalidSummary
		message += "; its ClusterSummary is invalid, so the last valid one counts: " +
			wire.Shorten(invalid.Reason, maxText) +
			"; update multicluster-scheduler in the target, and see to it that only its manager writes ClusterSummaries"
	}
	return connected(metav1.ConditionTrue, reason, message)
}
