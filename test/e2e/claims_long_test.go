//go:build e2e && three && long

package e2e

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFollowingAReplacedClaimKeepsItsPodWhileItsTargetIsAway cuts c3 off, which has the data. Then it restarts the
// source's managers, which forget what they knew, and replaces the claim by what its user wrote. c2 has room.
func TestFollowingAReplacedClaimKeepsItsPodWhileItsTargetIsAway(t *testing.T) {
	w := setUpThree(t)
	w.endWell(t, "heal", "c3")
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
	})
	w.kubectl(t, "cordon", "admiralty-c2")
	create(t, w.c1, w.database(w.volumes(t, 1), 1))
	c, delegate := w.running(t, "db-0")
	if c != w.c3 {
		t.Fatalf("db-0 runs in %s", c.name)
	}
	w.inside(t, c, delegate, "write", "/data/file", "data")
	w.kubectl(t, "uncordon", "admiralty-c2")

	clusters(t.Context(), t, "partition", "c3")
	w.nodeBecomes(t, "admiralty-c3", corev1.ConditionFalse, notReadyWithin)
	w.replacesManagers(t, func() {
		w.c1.kubectl(t, "-n", managerNamespace, "rollout", "restart", "deployment")
		w.c1.kubectl(t, "-n", managerNamespace, "rollout", "status", "deployment", "--timeout=2m")
	})
	w.replaceClaim(t)
	w.kubectl(t, "delete", "pod", "db-0", "--force", "--grace-period=0")
	w.waitsBecause(t, "db-0", "may be in c3, which cannot be asked now")
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.c2.List(t.Context(), claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) > 0 {
		t.Fatalf("c2 has %d claims, error %v", len(claims.Items), err)
	}

	clusters(t.Context(), t, "heal", "c3")
	w.takesPods(t, "admiralty-c3")
	c, delegate = w.running(t, "db-0")
	if c != w.c3 {
		t.Fatalf("db-0 runs in %s", c.name)
	}
	if got := strings.TrimSpace(w.inside(t, c, delegate, "cat", "/data/file")); got != "data" {
		t.Errorf("db-0 finds %q in its volume", got)
	}
}
