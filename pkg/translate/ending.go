package translate

import (
	"strconv"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// EndAsked says whether a source asked the target's manager to end the delegate of a PodChaperon, and the grace period
// in seconds, or nil for the delegate's own. An invalid value, which somebody wrote by hand, asks for nothing: a grace
// period that nobody understands might be a longer one. So the source asks again, and everybody agrees.
func EndAsked(chaperon *v1alpha1.PodChaperon) (grace *int64, asked bool) {
	value, ok := chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
	if value == "" {
		return nil, ok
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds < 0 {
		return nil, false
	}
	return &seconds, true
}
