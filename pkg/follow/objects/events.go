package objects

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// ReasonNotFollowed is the reason of the event that says why a change does not reach the pods in a target.
const ReasonNotFollowed = "NotFollowed"

const (
	// sayAgainAfter is the least time between two events that say the same: API servers keep events so long.
	sayAgainAfter = time.Hour
	// kindsOfNotes is how many events about one object and one target, with different texts, are recorded beside one
	// another.
	kindsOfNotes = 8
)

func (f *Follower) recordNotFollowed(original runtime.Object, target *engage.Target, refusal *needs.RefusedError) {
	retry := refusedRetry
	if refusal.Class == apierror.RightsMissing {
		retry = lastRetry
	}
	f.options.Recorder.Eventf(
		original,
		nil,
		corev1.EventTypeWarning,
		ReasonNotFollowed,
		actionOf(target.Key, refusal.Reason),
		"Target %s (virtual node %s) does not get what changed here, which is tried again every %s: %s",
		targetkind.Name(target.Key),
		target.NodeName,
		retry,
		refusal.Error(),
	)
}

// actionOf returns the action of an event about a target. The recorder counts events of the same action and reason, and
// keeps the first one's text. So the action tells targets and texts apart. The number of a target's actions is bounded:
// the target chooses the texts.
func actionOf(target types.NamespacedName, text string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text))
	return fmt.Sprintf("Follow%s%d", translate.TargetHash(target), hash.Sum32()%kindsOfNotes)
}
