package target

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	healthInterval = 10 * time.Second
	healthTimeout  = 5 * time.Second
	// maxMisses in a row make a target unreachable, half a minute after it stopped answering: within the grace period
	// that a node has.
	maxMisses = 3
)

// health is what the health checks of an engaged target say.
type health struct {
	misses int
	since  time.Time
}

// after is the health after a check at now.
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

// condition is that of a lost target whose last check failed with err.
func (h health) condition(err error, w want) metav1.Condition {
	condition := failedCondition(err, w)
	condition.Message = fmt.Sprintf("since %s, %s", h.since.UTC().Format(time.RFC3339), condition.Message)
	return condition
}
