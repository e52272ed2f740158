//go:build e2e && three

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestFollowingAnEphemeralVolumeIsMadeInTheTargetOnly(t *testing.T) {
	w := setUpThree(t)
	class := w.volumes(t, 1)
	template := inC2OrC3(podTemplate("scratch"))
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	claim := &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class,
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}}
	template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: claim},
	}}}
	create(t, w.c1, &corev1.Pod{
		ObjectMeta: w.meta("scratch", template.Annotations), Spec: template.Spec,
	})
	where, delegate := w.running(t, "scratch")
	w.expectClaim(t, where, delegate.Name+"-data", corev1.ClaimBound)
	w.expectClaim(t, w.c1, "scratch-data", corev1.ClaimPending)
	w.kubectl(t, "delete", "pod", "scratch")
	eventually(t, "the claims to be gone", func(ctx context.Context) error {
		for _, c := range w.all() {
			claims := &corev1.PersistentVolumeClaimList{}
			if err := c.List(ctx, claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) > 0 {
				return fmt.Errorf("%s has %d claims: %w", c.name, len(claims.Items), err)
			}
		}
		return nil
	})
}

func (w *three) expectClaim(t *testing.T, c *cluster, name string, phase corev1.PersistentVolumeClaimPhase) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, claim); err != nil {
		t.Fatal(err)
	}
	if claim.Status.Phase != phase {
		t.Errorf("claim %q in %s is %s, want %s", name, c.name, claim.Status.Phase, phase)
	}
}
