package garbagecollection

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// objectUse is the use of an object by PodChaperons or Ingresses of a source. Without resource and name, it is the use
// of all Services, Ingresses and EndpointSlices of the namespace by its PodChaperons.
type objectUse struct {
	source, namespace, resource, name string
}

// useCounter counts uses. It is safe for concurrent use.
type useCounter struct {
	mu    sync.Mutex // guards count
	count map[objectUse]int
}

func newUseCounter() *useCounter { return &useCounter{count: map[objectUse]int{}} }

// replace counts the uses of one object now in place of its uses before. It returns the uses that nobody has any more.
func (u *useCounter) replace(before, now []objectUse) (ended []objectUse) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range now {
		u.count[one]++
	}
	for _, one := range before {
		if u.count[one]--; u.count[one] <= 0 {
			delete(u.count, one)
			ended = append(ended, one)
		}
	}
	return ended
}

func (u *useCounter) inUse(one objectUse) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count[one] > 0
}

// usesOfChaperon returns the uses of a PodChaperon, which may be nil.
func usesOfChaperon(chaperon *v1alpha1.PodChaperon) []objectUse {
	if chaperon == nil || chaperon.Labels[v1alpha1.LabelParentClusterID] == "" {
		return nil
	}
	some := objectUse{source: chaperon.Labels[v1alpha1.LabelParentClusterID], namespace: chaperon.Namespace}
	all := []objectUse{some}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: chaperon.Annotations}, Spec: chaperon.Spec}
	for _, need := range needs.Of(pod) {
		all = append(all, objectUse{some.source, some.namespace, string(need.Resource), need.Name})
	}
	return all
}

// usesOfCopy returns the uses of a copy that slimCopy made: the TLS Secrets of an Ingress. The copy may be nil.
func usesOfCopy(ingress *metav1.PartialObjectMetadata) []objectUse {
	if ingress == nil || ingress.Annotations[annotationSecrets] == "" {
		return nil
	}
	var all []objectUse
	for name := range strings.SplitSeq(ingress.Annotations[annotationSecrets], ",") {
		all = append(
			all,
			objectUse{ingress.Labels[v1alpha1.LabelParentClusterID], ingress.Namespace, string(needs.Secrets), name},
		)
	}
	return all
}
