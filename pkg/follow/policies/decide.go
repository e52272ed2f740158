package policies

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// sayAgainAfter is the least time between two events about a policy: API servers keep events so long.
const sayAgainAfter = time.Hour

// record is what is known of a policy, as long as it selects the same pods.
type record struct {
	// seen is the name of a pod outside of the policy, which no event has named yet.
	seen   string
	looked bool      // whether the API server was asked for such pods
	said   time.Time // when an event last appeared
}

type step string

const (
	nothing step = "nothing"
	look    step = "look for proxies that the policy selects"
	say     step = "say that the policy does not apply"
)

// decide says what is to be done about a policy. It is pure. A pod that is seen soon after an event is covered by it.
func decide(policy *networkingv1.NetworkPolicy, r record, now time.Time) step {
	switch {
	case isInTargets(policy), r.isFresh(now):
		return nothing
	case r.seen != "":
		return say
	case !r.looked:
		return look
	default:
		return nothing
	}
}

// isFresh says whether there is an event that the API server still keeps.
func (r record) isFresh(now time.Time) bool {
	return !r.said.IsZero() && now.Sub(r.said) < sayAgainAfter
}

// isInTargets says whether the owner of a policy says that targets have their own.
func isInTargets(policy *networkingv1.NetworkPolicy) bool {
	_, ok := policy.Annotations[v1alpha1.AnnotationUseExisting]
	return ok
}

// selects says whether a policy selects pods with these labels. API servers refuse invalid selectors.
func selects(policy *networkingv1.NetworkPolicy, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	return err == nil && selector.Matches(labels.Set(of))
}
