package diagnosis

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Duration writes a duration as kubectl does, but more exactly below two seconds.
func Duration(d time.Duration) string {
	if d > 0 && d < 2*time.Second {
		return max(d.Round(10*time.Millisecond), time.Millisecond).String()
	}
	return duration.HumanDuration(d)
}
