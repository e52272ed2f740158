package translate

import (
	"fmt"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Fence returns the time in a value of the annotation fence-after-seconds or fenced-after-seconds. It is 0 if the
// delegate is not to be fenced.
func Fence(value string) (time.Duration, error) {
	if value == "" || value == "0" {
		return 0, nil
	}
	const least, most = int(timeouts.FenceLeast / time.Second), int(timeouts.FenceMost / time.Second)
	seconds, err := strconv.Atoi(value)
	if err != nil || strconv.Itoa(seconds) != value || seconds < least || seconds > most {
		return 0, fmt.Errorf("must be a whole number of seconds from %d to %d, or empty or 0 for no fencing",
			least, most)
	}
	return time.Duration(seconds) * time.Second, nil
}

// FenceOf returns after which time the delegate of a proxy is to be fenced in a target with a policy, or 0. The proxy's
// own annotation takes precedence. An invalid one, which somebody wrote after admission, counts as none.
func FenceOf(proxy *corev1.Pod, policy *v1alpha1.PlacementPolicy) time.Duration {
	if value, own := proxy.Annotations[v1alpha1.AnnotationFenceAfter]; own {
		if fence, err := Fence(value); err == nil {
			return fence
		}
	}
	return time.Duration(ptr.Deref(policy.FenceAfterSeconds, 0)) * time.Second
}

// maxGraceSeconds is 68 years. API servers accept a grace period of 292,000 million years.
const maxGraceSeconds = math.MaxInt32

// GracePeriod returns the pod's own grace period, 68 years at most.
func GracePeriod(pod *corev1.PodSpec) time.Duration {
	seconds := ptr.Deref(pod.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	return time.Duration(min(max(seconds, 1), maxGraceSeconds)) * time.Second
}

// replacedAfter returns when the proxy is evicted and replaced, counted from the taint of a lost target's node. It
// returns false if nobody replaces the proxy before it is gone, as with StatefulSets. explicit says that the user chose
// this time.
func replacedAfter(proxy *corev1.Pod) (after time.Duration, explicit, replaced bool) {
	owner := metav1.GetControllerOf(proxy)
	if owner == nil || owner.Kind == "StatefulSet" {
		return 0, false, false
	}
	seconds := int64(math.MaxInt64)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		t := tolerating(proxy.Spec.Tolerations, key)
		switch {
		case t == nil: // API servers add the default, perhaps later.
			seconds = min(seconds, defaultTolerationSeconds)
		case t.TolerationSeconds != nil:
			seconds = min(seconds, max(*t.TolerationSeconds, 0))
		}
	}
	if seconds > int64(math.MaxInt64/time.Second) {
		return 0, false, false
	}
	return time.Duration(seconds) * time.Second, seconds != defaultTolerationSeconds, true
}

// FenceProblem says why fencing after some time does not keep the pod from running twice, or is empty if it does.
// explicit says that the user chose the time that is too short.
func FenceProblem(proxy *corev1.Pod, fence time.Duration) (problem string, explicit bool) {
	after, explicit, replaced := replacedAfter(proxy)
	grace := GracePeriod(&proxy.Spec)
	holds := timeouts.FenceHolds(fence, grace)
	if fence == 0 || !replaced {
		return "", false
	}
	s := func(d time.Duration) int { return int(d / time.Second) }
	mend := fmt.Sprintf("tolerate %s for at least %d s, and %s for %d s or more (write both: the API server may have "+
		"a shorter default)", corev1.TaintNodeNotReady, s(holds), corev1.TaintNodeUnreachable, defaultTolerationSeconds)
	switch {
	case after < holds:
		const text = "this pod may run twice for a while if its target is lost: it is replaced after %d s, and its " +
			"delegate is stopped after up to %d s (fencing %d, slack %d, grace period %d): %s, or shorten the others"
		return fmt.Sprintf(text, s(after), s(holds), s(fence), s(timeouts.FenceSlack), s(grace), mend), explicit
	case !startsAnew(proxy):
		return "this pod may run twice for a while if its target is lost, and hears of this cluster meanwhile: the " +
			"time until its delegate is stopped begins anew then, and the time until it is replaced does not: " +
			mend, true
	}
	return "", false
}

// startsAnew says whether a proxy that tolerates the taint not-ready for some time does so anew when its virtual node
// is Unknown for a while. Kubernetes keeps the time of a proxy that tolerates the taint unreachable for some time, too.
func startsAnew(proxy *corev1.Pod) bool {
	t := tolerating(proxy.Spec.Tolerations, corev1.TaintNodeUnreachable)
	return t == nil || t.TolerationSeconds == nil || *t.TolerationSeconds >= defaultTolerationSeconds
}

// validateFence refuses a proxy that asks to be fenced, and to be replaced before fencing holds. If the time comes from
// the API server's defaults, admission warns of it only.
func validateFence(proxy *corev1.Pod) *field.Error {
	value := proxy.Annotations[v1alpha1.AnnotationFenceAfter]
	fence, err := Fence(value)
	if err != nil {
		return nil //nolint:nilerr // validateElected has refused it.
	}
	if problem, explicit := FenceProblem(proxy, fence); explicit {
		return field.Invalid(annotationPath(v1alpha1.AnnotationFenceAfter), value, problem)
	}
	return nil
}

// FenceValue is the value of the annotations for a time.
func FenceValue(fence time.Duration) string { return strconv.Itoa(int(fence / time.Second)) }
