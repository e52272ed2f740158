//go:build long

package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestACopyGrowsWhenTheQuotaHasRoomAgain waits for the retry, which comes after a minute.
func TestACopyGrowsWhenTheQuotaHasRoomAgain(t *testing.T) {
	namespace, c2, _ := engaged(t)
	_, original, copied := copied(t, c2)
	bind(t, source, original)
	bind(t, c2.Cluster, original)
	full := env.ForbidAll(t, c2.Cluster, namespace, corev1.ResourceRequestsStorage)
	env.Eventually(t, func(ctx context.Context) error { // The API server learns of the quota.
		probe := copied.DeepCopy()
		probe.ObjectMeta = env.Meta(namespace, "probe")
		if err := c2.Cluster.Client.Create(ctx, probe, client.DryRunAll); err == nil {
			return errors.New("the quota does not hold yet")
		}
		return nil
	})
	resize(t, original, "2Gi")
	env.WaitForEvent(t, source, original, reasonNotExpanded, "exceeded quota")
	waitForSize(t, c2.Cluster, original, "1Gi")
	env.Must(t, c2.Cluster.Client.Delete(t.Context(), full))
	grown := func(ctx context.Context) (bool, error) {
		claim := &corev1.PersistentVolumeClaim{}
		err := c2.Cluster.Client.Get(ctx, client.ObjectKeyFromObject(original), claim)
		return claim.Spec.Resources.Requests.Storage().String() == "2Gi", err
	}
	env.Must(t, wait.PollUntilContextTimeout(t.Context(), time.Second, 2*time.Minute, true, grown))
}
