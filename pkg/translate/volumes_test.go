package translate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Each kind of volume that names something outside of the pod: the delegate has it as the user wrote it, and the
// objects that follow are those that the target needs for it.
func TestVolumesOfDelegates(t *testing.T) {
	path := "token"
	for name, tc := range map[string]struct {
		volume corev1.VolumeSource
		needs  []needs.Ref
	}{
		"a claim, also one of a volumeClaimTemplate": {
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: "data-db-0",
			}},
			[]needs.Ref{{Resource: needs.PersistentVolumeClaims, Name: "data-db-0"}},
		},
		"a generic ephemeral volume: the target makes the claim": {
			corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: new("fast"),
				}},
			}}, nil,
		},
		"a CSI inline volume, with its Secret": {
			corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
				Driver: "example.com", NodePublishSecretRef: &corev1.LocalObjectReference{Name: "login"},
			}},
			[]needs.Ref{{Resource: needs.Secrets, Name: "login"}},
		},
		"a token of the target, for the user's own audience": {
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: path},
			}}}}, nil,
		},
		"projected objects": {
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
				{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("ca"), Path: "ca"}},
			}}},
			[]needs.Ref{{Resource: needs.Secrets, Name: "keys"}},
		},
		"an image volume": {
			corev1.VolumeSource{Image: &corev1.ImageVolumeSource{
				Reference: "example.com/model:1", PullPolicy: corev1.PullAlways,
			}}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Name, pod.Namespace = "db-0", "default"
			pod.Annotations = map[string]string{v1alpha1.AnnotationElect: ""}
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: tc.volume}}
			proxy, err := translate.Proxy(pod)
			if err != nil {
				t.Fatal(err)
			}
			chaperon, err := translate.Chaperon(proxy, translate.Source{ClusterID: "source"}, translate.Destination{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(pod.Spec.Volumes, translate.Delegate(chaperon).Spec.Volumes); diff != "" {
				t.Errorf("the delegate has other volumes (-want +got):\n%s", diff)
			}
			var found []needs.Ref
			for _, need := range needs.Of(pod) {
				found = append(found, need.Ref)
			}
			if diff := cmp.Diff(tc.needs, found); diff != "" {
				t.Errorf("unexpected needs (-want +got):\n%s", diff)
			}
		})
	}
}
