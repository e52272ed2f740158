package target

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	healthInterval = 10 * time.Second
	healthTimeout  = 5 * time.Second
	// maxMisses is the number of failed checks in a row after which a target is lost. The third one fails half a minute
	// after the target stopped answering, within the grace period of nodes.
	maxMisses = 3
)

// health is the result of the latest health checks of an engaged target.
type health struct {
	misses int
	since  time.Time
}

// after returns the health after one more check.
func (h health) after(err error, now time.Time) health {
	if err == nil {
		return health{}
	}
	if h.misses == 0 {
		h.since = now
	}
	h.misses++
	return h
}

func (h health) lost() bool { return h.misses >= maxMisses }

// condition returns the condition of a lost target whose last check failed with err.
func (h health) condition(err error, w want) metav1.Condition {
	condition := failedCondition(err, w)
	condition.Message = fmt.Sprintf("since %s, %s", h.since.UTC().Format(time.RFC3339), condition.Message)
	return condition
}
