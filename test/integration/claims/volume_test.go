package claims

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func TestStorageClassesDecideToo(t *testing.T) {
	s := newStory(t)
	s.create(shared.source, "special", followed, ofClass("only-here"))
	s.objects(s.pod("special"), s.c2, `claim "special" is of storage class "only-here", which does not exist there`)
	s.refused(s.pod("special"), s.c2, `is of storage class "only-here", which does not exist there`)
	s.followedTo("special", "")

	if class := s.create(shared.source, "data", followed).Spec.StorageClassName; ptr.Deref(class, "") != "gp3" {
		t.Fatalf("the source's default is %v", class)
	}
	s.objects(s.pod("data"), s.c2, "")
	s.bring(s.pod("data"), s.c2)
	if class := s.get(shared.c2, "data").Spec.StorageClassName; ptr.Deref(class, "") != "standard" {
		t.Errorf("the copy's class is %v", class)
	}
}

func TestACopyGrowsWithItsClaim(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fast"))
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	s.bound(shared.source, original)
	s.resize(original, "2Gi") // The copy is not bound yet: no API server would expand it.
	s.settled(s.c2, shared.c2)
	s.bound(shared.c2, original)
	s.isOf(shared.c2, "data", "2Gi")
	s.resize(original, "3Gi")
	s.isOf(shared.c2, "data", "3Gi")
	if s.hasEvent(original, claims.ReasonNotExpanded) {
		t.Error("an event tells of what was to be expected")
	}
}

func TestACopyThatCannotGrowStaysAndTheClaimTells(t *testing.T) {
	s := newStory(t)
	pod := s.pod("data")
	original := s.create(shared.source, "data", followed, ofClass("fixed-there"))
	s.objects(pod, s.c2, "")
	s.bring(pod, s.c2)
	s.bound(shared.source, original)
	s.bound(shared.c2, original)
	s.resize(original, "2Gi")
	apiserver.Eventually(t, func(context.Context) error {
		if !s.hasEvent(original, claims.ReasonNotExpanded) {
			return errors.New("no event")
		}
		return nil
	})
	s.isOf(shared.c2, "data", "1Gi")
}

func TestVolumesThatAreMadeByHandAreSelectedThere(t *testing.T) {
	s := newStory(t)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "7"}}
	s.create(shared.source, "data", followed, ofClass(""), func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.Selector = selector })
	s.objects(s.pod("data"), s.c2, "")
	s.bring(s.pod("data"), s.c2)
	if diff := cmp.Diff(selector, s.get(shared.c2, "data").Spec.Selector); diff != "" {
		t.Error(diff)
	}
}
