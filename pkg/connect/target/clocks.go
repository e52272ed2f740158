package target

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// toleratedSkew is the difference of two clocks that is not worth a word.
const toleratedSkew = 2 * time.Minute

// compare notes how far the target's clock is ahead of ours. A difference that has changed by less than a minute is the
// same, so that the condition's text stays.
func (e *engagement) compare(ahead time.Duration) {
	if (ahead - e.ahead).Abs() >= time.Minute {
		e.ahead = ahead.Round(time.Minute)
	}
}

// clocksText is for a condition's message. It is empty if the clocks agree.
func clocksText(ahead time.Duration) string {
	if ahead.Abs() < toleratedSkew {
		return ""
	}
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("; its clock is %s %s this cluster's, so times in the status of its pods are wrong here: "+
		"retries of Jobs and minReadySeconds go by them; set the clocks",
		duration.HumanDuration(ahead.Abs()), direction)
}
