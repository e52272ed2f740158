package garbagecollection

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// use is that PodChaperons or copies of a source refer to an object, or, without resource and name, that there are
// PodChaperons in the namespace.
type use struct {
	source, namespace, resource, name string
}

// uses counts. It is safe for concurrent use.
type uses struct {
	mu    sync.Mutex // guards count
	count map[use]int
}

func newUses() *uses { return &uses{count: map[use]int{}} }

// replace counts what one object uses now instead of what it used before, and returns what nobody uses any more.
func (u *uses) replace(before, now []use) (ended []use) {
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

func (u *uses) has(one use) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.count[one] > 0
}

// ofChaperon is what a PodChaperon uses; it may be nil.
func ofChaperon(chaperon *v1alpha1.PodChaperon) []use {
	if chaperon == nil || chaperon.Labels[v1alpha1.LabelParentClusterID] == "" {
		return nil
	}
	some := use{source: chaperon.Labels[v1alpha1.LabelParentClusterID], namespace: chaperon.Namespace}
	all := []use{some}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: chaperon.Annotations}, Spec: chaperon.Spec}
	for _, need := range needs.Of(pod) {
		all = append(all, use{some.source, some.namespace, string(need.Resource), need.Name})
	}
	return all
}

// ofCopy is what a copy, as slim left it, uses itself: the TLS Secrets of an Ingress.
func ofCopy(ingress *metav1.PartialObjectMetadata) []use {
	if ingress == nil || ingress.Annotations[annotationSecrets] == "" {
		return nil
	}
	var all []use
	for name := range strings.SplitSeq(ingress.Annotations[annotationSecrets], ",") {
		all = append(
			all,
			use{ingress.Labels[v1alpha1.LabelParentClusterID], ingress.Namespace, string(needs.Secrets), name},
		)
	}
	return all
}
