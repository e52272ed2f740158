package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/responsive"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// answered notes how the target answered a request. The status is 0 if it did not.
func (l *loop) answered(status int, took time.Duration) {
	answer := responsive.Good
	switch {
	case status == http.StatusTooManyRequests:
		answer = responsive.Throttled
	case status == 0 || status >= http.StatusInternalServerError:
		answer = responsive.Failed
	case took > responsive.SlowAfter:
		answer = responsive.Slow
	}
	now := l.options.Clock.Now()
	l.silence.note(status != 0, took, now)
	l.quality.Note(answer, now)
	l.reportDecision()
}

// reportDecision has the condition Responsive written if it is another one. It does not wait for the goroutine of the
// loop, which may wait for the target.
func (l *loop) reportDecision() {
	state := l.quality.Decision(l.options.Clock.Now()).State
	if l.shown.Swap(int64(state)) != int64(state) {
		l.connections.changed(l.key)
	}
}

// lookAtWatches notes if a watch fails, although other requests may succeed. The source then sees nothing of what it
// places in the target.
func (l *loop) lookAtWatches() {
	if d := l.engaged.dialer; d != nil && d.wire.WatchFails() {
		l.quality.Note(responsive.Failed, l.options.Clock.Now())
	}
	l.reportDecision()
}

// wary says whether the target may be slow.
func (l *loop) wary() bool { return l.quality.Wary(l.options.Clock.Now()) }

// checkAgain checks the health of the engaged target, within some time. An error that a target answers at once, and
// that passes, does not count if the target answers well the next time.
func (l *loop) checkAgain(ctx context.Context, within time.Duration) (
	summary *v1alpha1.ClusterSummary, invalid *gate.ForgedError, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err = l.repeatedly(ctx, isAnswer, func() (err error) {
		summary, invalid, err = l.engaged.check(ctx)
		return err
	})
	return summary, invalid, err
}

// heard says whether the target has answered of late.
func (l *loop) heard() bool { return l.quality.Heard(l.options.Clock.Now()) }

// deadline returns how long one request for the health of a target, or for connecting to it, may take. A target that
// seems to be dead may be slow.
func (l *loop) deadline() time.Duration {
	if l.doubts > 0 || l.quality.Slow(l.options.Clock.Now()) {
		return timeouts.Request
	}
	return healthTimeout
}

// persistently tries a step of connecting again if it fails although the target does answer. Connecting takes many
// steps. If each succeeds half of the time, one attempt for all of them never does.
func (l *loop) persistently(ctx context.Context, step func() error) error {
	return l.repeatedly(ctx, isPassing, step)
}

// repeatedly does a step up to five times, as long as its error is one to try again.
func (l *loop) repeatedly(ctx context.Context, again func(error) bool, step func() error) error {
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 5}
	for {
		err := step()
		if err == nil || ctx.Err() != nil || backoff.Steps <= 1 || !again(err) || !l.heard() {
			return err
		}
		pause.For(ctx, l.options.Clock, backoff.Step())
	}
}

// isPassing says whether an error may be another one, or none, the next time.
func isPassing(err error) bool {
	class := apierror.Of(err, apierror.Existing)
	return class == apierror.Unanswered || class == apierror.Unavailable
}

// isAnswer says whether an error is a passing one that the target told, so that it cost little time.
func isAnswer(err error) bool {
	var answer apierrors.APIStatus
	return isPassing(err) && errors.As(err, &answer)
}

// comeback is that of a target that was lost.
type comeback struct {
	lost   bool      // since it was looked at last
	steady time.Time // when the target counts as connected
}

// steadyAt returns when a target counts as connected that answers now.
func (c *comeback) steadyAt(now time.Time, quality *responsive.Observer) time.Time {
	if c.lost {
		c.lost, c.steady = false, quality.SteadyAt(now)
	}
	return c.steady
}

// steady returns the condition of an engaged target, unless it was lost several times of late, and has to go on
// answering before it counts as connected.
func (l *loop) steady(is metav1.Condition) metav1.Condition {
	now := l.options.Clock.Now()
	steadyAt := l.comeback.steadyAt(now, &l.quality)
	if is.Status != metav1.ConditionTrue || !now.Before(steadyAt) {
		return is
	}
	return disconnected(v1alpha1.ReasonFlapping, fmt.Sprintf("the target answers, but was lost several times of late. "+
		"It counts as connected from %s on, if it goes on answering; is its API server restarted again and again, or "+
		"the network between the clusters down for minutes at a time?", steadyAt.UTC().Format(time.RFC3339)))
}

// noteLoss notes that the target is lost, if this is news.
func (l *loop) noteLoss(was, is string) {
	if is == v1alpha1.ReasonUnreachable && was != is {
		l.comeback.lost = true
		l.quality.Lost(l.options.Clock.Now())
	}
}

// responsiveCondition returns the condition Responsive. It is empty as long as it is not known.
func responsiveCondition(v responsive.Decision, w want) metav1.Condition {
	is := metav1.Condition{
		Type: v1alpha1.ConditionResponsive, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonResponsive,
		Message: "the target's API server answers well",
	}
	if v.State == responsive.Unknown || w.config == nil {
		return metav1.Condition{}
	}
	if v.State == responsive.Responsive {
		return is
	}
	is.Status = metav1.ConditionFalse
	var trouble, question string
	switch v.Reason {
	case responsive.Throttled:
		is.Reason, trouble = v1alpha1.ReasonThrottled, "refuses requests because there are too many (status 429)"
		question = "who asks it so much, and does its API Priority and Fairness leave room for this source?"
	case responsive.Failed:
		is.Reason, trouble = v1alpha1.ReasonFailing, "fails requests, or does not answer them"
		question = "is its API server, its etcd, or a load balancer in between in trouble?"
	default:
		is.Reason, trouble = v1alpha1.ReasonSlow, fmt.Sprintf("takes more than %s to answer", responsive.SlowAfter)
		question = "is its API server or etcd overloaded, or the network between the clusters?"
	}
	is.Message = fmt.Sprintf("since %s, %s %s. Its pods run on, and no new pods go there until it has answered well "+
		"for %s; %s", v.Since.UTC().Format(time.RFC3339), w.config.Host, trouble, v.Recovery, question)
	return is
}

// responsiveOf returns the condition Responsive to write. While nothing is known, the one that an earlier manager wrote
// stays.
func responsiveOf(found finding, status v1alpha1.TargetStatus) metav1.Condition {
	was := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionResponsive)
	if found.responsive.Type == "" && was != nil {
		return *was
	}
	return found.responsive
}

// recordResponsive records an event if the target does not answer well any more, or does so again.
func (r *Reconciler) recordResponsive(target client.Object, was v1alpha1.TargetStatus, is metav1.Condition) {
	isBad := is.Status == metav1.ConditionFalse
	if isBad == meta.IsStatusConditionFalse(was.Conditions, v1alpha1.ConditionResponsive) {
		return
	}
	eventType := corev1.EventTypeNormal
	if isBad {
		eventType = corev1.EventTypeWarning
	}
	r.options.Recorder.Eventf(target, nil, eventType, is.Reason, "Connect", "%s: %s",
		targetkind.Name(client.ObjectKeyFromObject(target)), is.Message)
}
