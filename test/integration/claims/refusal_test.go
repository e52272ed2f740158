package claims

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestAClaimWithoutDataLeavesTheTargetThatRefusesItsPod(t *testing.T) {
	t.Parallel()
	_, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String())
	follower.Refused(pod, c2.Target)
	waitForDeletion(t, c2.Cluster, made)
	env.Eventually(t, func(context.Context) error {
		if env.Get(t, source, original.DeepCopy()).Annotations[v1alpha1.AnnotationFollowedTo] != "" {
			return errors.New("the claim is not free")
		}
		return nil
	})
	waitForObjection(t, pod, c3, "")
	mustEnsure(t, pod, c3) // Although a finalizer holds the copy in c2.
	expectFollowedTo(t, original, c3.Key.String())
	env.RemoveFinalizers(t, c2.Cluster, made)
	waitForWorkers(t, c2)
	expectKept(t, c3.Cluster, find(t, c3, "data"))
}

// TestAPodThatWaitsTakesAClaimWithoutDataAlong has a pod that waits in c2, which may add a node for it, say. Then c3
// has room.
func TestAPodThatWaitsTakesAClaimWithoutDataAlong(t *testing.T) {
	t.Parallel()
	_, c2, c3 := engaged(t)
	pod, original, made := copied(t, c2)
	waitForObjection(t, pod, c3, `claim "data" is in `+c2.Key.String())
	env.Eventually(t, func(context.Context) error {
		if got := follower.Objection(pod, c3.Target, c2.Target); got != "" { // Watches begin with the first question.
			return errors.New(got)
		}
		return nil
	})
	if err := follower.MayRelease(t.Context(), pod, c2.Target); err == nil {
		t.Error("somebody may be about to bind a volume to the copy")
	}
	env.Eventually(t, func(ctx context.Context) error { return follower.MayRelease(ctx, pod, c2.Target) })
	env.Must(t, follower.Release(t.Context(), pod, c2.Target))
	waitForDeletion(t, c2.Cluster, made)
	mustEnsure(t, pod, c3) // Although a finalizer holds the copy in c2.
	expectFollowedTo(t, original, c3.Key.String())
	env.RemoveFinalizers(t, c2.Cluster, made)
	expectKept(t, c3.Cluster, find(t, c3, "data"))
}

// TestACopyThatIsMadeAfterItsPodWentElsewhereGoes has a target that carries out a creation long after the source gave
// it up: a webhook was slow.
func TestACopyThatIsMadeAfterItsPodWentElsewhereGoes(t *testing.T) {
	t.Parallel()
	namespace, _, c3 := engaged(t)
	var inTarget hook
	slow := engageWith(t, namespace, "slow", cluster2, env.Intercept(logins[cluster2], inTarget.see))
	pod, original := podWith(namespace, "data"), createFollowed(t, namespace, "data")
	waitForObjection(t, pod, slow, "")
	late := &corev1.PersistentVolumeClaim{}
	inTarget.on(t, http.MethodPost, namespace, "", func(r *http.Request) *http.Response {
		if err := json.NewDecoder(r.Body).Decode(late); err != nil {
			t.Error(err)
		}
		return tooLate(r)
	})
	if err := ensure(t.Context(), pod, slow); err == nil {
		t.Fatal("the target made the copy in time")
	}
	inTarget.off()
	follower.Refused(pod, slow.Target)
	waitForObjection(t, pod, c3, "")
	mustEnsure(t, pod, c3)
	env.Must(t, env.ClientFor(t, logins[cluster2]).Create(t.Context(), late))
	waitForDeletion(t, cluster2, late)
	expectFollowedTo(t, original, c3.Key.String())
	expectKept(t, c3.Cluster, find(t, c3, "data"))
}

func TestAClaimThatMayHaveDataStaysInTheTargetThatRefusesItsPod(t *testing.T) {
	t.Parallel()
	namespace, c2, _ := engaged(t)
	pod := podWith(namespace, "data", "used", "free")
	for _, name := range []string{"data", "used", "free"} {
		createFollowed(t, namespace, name)
	}
	waitForObjection(t, pod, c2, "")
	mustEnsure(t, pod, c2)
	data, used, free := find(t, c2, "data"), find(t, c2, "used"), find(t, c2, "free")
	env.Change(t, c2.Cluster, data, func(claim *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "volume.kubernetes.io/selected-node", "node-1")
	})
	chaperon := env.Chaperon(namespace, "db-1", sourceID, c2.Key)
	chaperon.Spec = podWith(namespace, "used").Spec
	env.Create(t, c2.Cluster, chaperon)
	follower.Refused(pod, c2.Target)
	waitForDeletion(t, c2.Cluster, free)
	waitForWorkers(t, c2)
	expectKept(t, c2.Cluster, data)
	expectKept(t, c2.Cluster, used)
}
