package claims

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestATargetWithoutTheStorageClassOfAClaimIsLeftOut(t *testing.T) {
	namespace, c2, _ := engaged(t)
	special := create(t, source, namespace, "special", followed, ofClass("only-here"))
	reason := `is of storage class "only-here", which does not exist there`
	waitForObjection(t, podWith(namespace, "special"), c2, `claim "special" `+reason)
	expectRefusal(t, podWith(namespace, "special"), c2, reason)
	expectFollowedTo(t, special, "")

	if class := create(t, source, namespace, "data", followed).Spec.StorageClassName; ptr.Deref(class, "") != "gp3" {
		t.Fatalf("the source's default is %v", class)
	}
	waitForObjection(t, podWith(namespace, "data"), c2, "")
	mustEnsure(t, podWith(namespace, "data"), c2)
	if class := find(t, c2, "data").Spec.StorageClassName; ptr.Deref(class, "") != "standard" {
		t.Errorf("the copy's class is %v", class)
	}
}

func TestAClaimWithADataSourceIsNotMadeEmptyInATarget(t *testing.T) {
	t.Parallel()
	namespace, c2, _ := engaged(t)
	fromSnapshot := func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
			APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: "nightly",
		}
	}
	snapshot := create(t, source, namespace, "data", followed, ofClass("fast"), fromSnapshot)
	reason := `is to be filled from VolumeSnapshot "nightly", and a claim that is made there from one here is empty: ` +
		"make it there, from what that cluster has"
	waitForObjection(t, podWith(namespace, "data"), c2, `claim "data" `+reason)
	expectRefusal(t, podWith(namespace, "data"), c2, reason)
	expectFollowedTo(t, snapshot, "")
	expectNone(t, c2, "data")

	create(t, c2.Cluster, namespace, "data", ofClass("fast")) // Somebody makes it there, with contents.
	waitForObjection(t, podWith(namespace, "data"), c2, "")
	env.Eventually(t, func(ctx context.Context) error { // A new manager waits until the claim is older.
		return ensure(ctx, podWith(namespace, "data"), c2)
	})
	expectFollowedTo(t, snapshot, c2.Key.String())
}

func TestACopyGrowsWithItsClaim(t *testing.T) {
	_, c2, _ := engaged(t)
	_, original, _ := copied(t, c2)
	bind(t, source, original)
	resize(t, original, "2Gi") // The copy is not bound yet: no API server would expand it.
	waitForWorkers(t, c2)
	bind(t, c2.Cluster, original)
	waitForSize(t, c2.Cluster, original, "2Gi")
	resize(t, original, "3Gi")
	waitForSize(t, c2.Cluster, original, "3Gi")
	for _, event := range env.Events(t, source, original) {
		if event.Reason == reasonNotExpanded {
			t.Errorf("an event reports what was to be expected: %s", event.Note)
		}
	}
}

func TestACopyThatCannotGrowStaysAndAnEventReportsIt(t *testing.T) {
	namespace, c2, _ := engaged(t)
	original := create(t, source, namespace, "data", followed, ofClass("fixed-there"))
	waitForObjection(t, podWith(namespace, "data"), c2, "")
	mustEnsure(t, podWith(namespace, "data"), c2)
	bind(t, source, original)
	bind(t, c2.Cluster, original)
	resize(t, original, "2Gi")
	env.WaitForEvent(t, source, original, reasonNotExpanded, "")
	waitForSize(t, c2.Cluster, original, "1Gi")
}

func TestAnEventReportsAVolumeInTheSourceThatNoPodUses(t *testing.T) {
	namespace, c2, _ := engaged(t)
	immediate := create(t, source, namespace, "immediate", followed)
	waits := create(t, source, namespace, "waits", followed, ofClass("waits"))
	pod := podWith(namespace, "waits", "immediate")
	waitForObjection(t, pod, c2, "")
	mustEnsure(t, pod, c2)
	env.WaitForEvent(t, source, immediate, claims.ReasonVolumeUnused, `StorageClass "gp3"`)
	if events := env.Events(t, source, waits); len(events) > 0 {
		t.Errorf("%d events of the claim that waits for its first consumer: %s", len(events), events[0].Note)
	}
}

func TestACopySelectsVolumesThatAreMadeByHandInItsTarget(t *testing.T) {
	namespace, c2, _ := engaged(t)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "7"}}
	create(t, source, namespace, "data", followed, ofClass(""), func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Selector = selector
	})
	waitForObjection(t, podWith(namespace, "data"), c2, "")
	mustEnsure(t, podWith(namespace, "data"), c2)
	env.ExpectEqual(t, "selector", selector, find(t, c2, "data").Spec.Selector)
}

// bind plays the controller that binds claims to volumes.
func bind(t *testing.T, c *env.Cluster, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	bound := claim.DeepCopy()
	env.Change(t, c, bound, func(bound *corev1.PersistentVolumeClaim) {
		bound.Spec.VolumeName = "pv-of-" + claim.Namespace
	})
	env.ChangeStatus(t, c, bound, func(bound *corev1.PersistentVolumeClaim) {
		bound.Status.Phase, bound.Status.Capacity = corev1.ClaimBound, bound.Spec.Resources.Requests
	})
}

// resize changes the size that a claim in the source asks for.
func resize(t *testing.T, claim *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	env.Change(t, source, claim.DeepCopy(), func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
	})
}

// waitForSize waits until the claim of a name requests this size.
func waitForSize(t *testing.T, c *env.Cluster, claim *corev1.PersistentVolumeClaim, size string) {
	t.Helper()
	env.WaitFor(t, c, claim.DeepCopy(), func(claim *corev1.PersistentVolumeClaim) error {
		if got := claim.Spec.Resources.Requests.Storage().String(); got != size {
			return fmt.Errorf("the claim asks for %s, want %s", got, size)
		}
		return nil
	})
}
