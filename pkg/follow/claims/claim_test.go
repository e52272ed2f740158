package claims

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func noon() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

func TestWhatIsKeptOfAClaim(t *testing.T) {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			UID: "1",
			Annotations: map[string]string{
				v1alpha1.AnnotationFollow:              "",
				v1alpha1.AnnotationFollowedTo:          "team/c2",
				v1alpha1.AnnotationFollowedToClusterID: "id",
			},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ki")},
			},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	want := claim{
		uid:        "1",
		request:    1024,
		bound:      true,
		follow:     true,
		followedTo: location{"team/c2", "id"},
		class:      "fast",
	}
	if diff := cmp.Diff(want, claimOf(pvc, "source"), cmp.AllowUnexported(claim{}, location{})); diff != "" {
		t.Error(diff)
	}
	pvc = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{UID: "2", DeletionTimestamp: &metav1.Time{Time: noon()}},
	}
	pvc.Annotations = map[string]string{v1alpha1.AnnotationFollowedToClusterID: "id"} // which means nothing alone
	want = claim{uid: "2", deleting: true, noClass: true, empty: true}
	if diff := cmp.Diff(want, claimOf(pvc, "source"), cmp.AllowUnexported(claim{}, location{})); diff != "" {
		t.Error(diff)
	}
}

func TestFromWhatAClaimIsFilled(t *testing.T) {
	snapshot := &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "nightly"}
	for name, test := range map[string]struct {
		spec corev1.PersistentVolumeClaimSpec
		want string
	}{
		"an empty claim":    {},
		"by its dataSource": {corev1.PersistentVolumeClaimSpec{DataSource: snapshot}, `VolumeSnapshot "nightly"`},
		"by its dataSourceRef": {
			corev1.PersistentVolumeClaimSpec{
				DataSourceRef: &corev1.TypedObjectReference{Kind: "Image", Name: "seed", Namespace: ptr.To("images")},
			},
			`Image "images/seed"`,
		},
		"by both, as the API server sets them": {
			corev1.PersistentVolumeClaimSpec{
				DataSource:    snapshot,
				DataSourceRef: &corev1.TypedObjectReference{Kind: "VolumeSnapshot", Name: "nightly"},
			},
			`VolumeSnapshot "nightly"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := claimOf(&corev1.PersistentVolumeClaim{Spec: test.spec}, "source").filledFrom; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestOnlyWhatWeMadeIsOurs(t *testing.T) {
	copied := func(change func(*metav1.ObjectMeta)) *corev1.PersistentVolumeClaim {
		made, err := desiredCopy(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, nil, noon())
		if err != nil {
			t.Fatal(err)
		}
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			UID:               "9",
			CreationTimestamp: metav1.NewTime(noon().Add(time.Second)),
			Labels:            made.GetLabels(),
			Annotations:       made.GetAnnotations(),
		}}
		pvc.Labels[v1alpha1.LabelParentClusterID] = "source" // as the writer of copies does
		change(&pvc.ObjectMeta)
		return pvc
	}
	for name, test := range map[string]struct {
		change func(*metav1.ObjectMeta)
		want   origin
		parent types.UID
	}{
		"a copy": {
			change: func(*metav1.ObjectMeta) {}, want: ours, parent: "1",
		},
		"a copy of another source": {
			change: func(m *metav1.ObjectMeta) { m.Labels[v1alpha1.LabelParentClusterID] = "another" },
			want:   anotherSource,
			parent: "1",
		},
		"a claim without labels": {
			change: func(m *metav1.ObjectMeta) { m.Labels = nil }, want: others,
		},
		"a copy that its owner took over": {
			change: func(m *metav1.ObjectMeta) { delete(m.Labels, v1alpha1.LabelParentUID) }, want: others,
		},
		"a copy that was restored from a backup": {
			change: func(m *metav1.ObjectMeta) { m.CreationTimestamp = metav1.NewTime(noon().Add(24 * time.Hour)) },
			want:   others,
			parent: "1",
		},
		"a copy in a cluster whose clock is slow": {
			change: func(m *metav1.ObjectMeta) { m.CreationTimestamp = metav1.NewTime(noon().Add(-time.Minute)) },
			want:   ours,
			parent: "1",
		},
		"a claim of which nobody knows when it was asked for": {
			change: func(m *metav1.ObjectMeta) { m.Annotations = nil }, want: others, parent: "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := claimOf(copied(test.change), "source")
			if got.origin != test.want || got.parent != test.parent {
				t.Errorf("origin %d, parent %q, want %d and %q", got.origin, got.parent, test.want, test.parent)
			}
		})
	}
}

func TestACopyIsEmptyAndTakesNothingAlong(t *testing.T) {
	mode := corev1.PersistentVolumeBlock
	requests := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	original := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       "team",
			Name:            "data",
			UID:             "1",
			ResourceVersion: "5",
			Finalizers:      []string{"kubernetes.io/pvc-protection"},
			Labels:          map[string]string{"app": "db"},
			Annotations:     map[string]string{v1alpha1.AnnotationFollow: ""},
			OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db"}},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: requests},
			StorageClassName: ptr.To("gp3"),
			VolumeMode:       &mode,
			VolumeName:       "pv-of-the-source",
			DataSource:       &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "template"},
		},
	}
	got, err := desiredCopy(original, ptr.To("fast"), noon())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"apiVersion": "v1",
		"kind":       "PersistentVolumeClaim",
		"metadata": map[string]any{
			"namespace":   "team",
			"name":        "data",
			"labels":      map[string]any{v1alpha1.LabelParentUID: "1"},
			"annotations": map[string]any{v1alpha1.AnnotationNeededAt: "2030-01-01T12:00:00Z"},
		},
		"spec": map[string]any{
			"accessModes":      []any{"ReadWriteOnce"},
			"resources":        map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			"storageClassName": "fast",
			"volumeMode":       "Block",
		},
		"status": map[string]any{},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestTheClaimsOfAPod(t *testing.T) {
	by := func(name string) corev1.Volume {
		return corev1.Volume{
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			},
		}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{
		by("data"),
		by("log"),
		by("data"),
		{
			VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
			},
		},
		{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}}}
	if diff := cmp.Diff([]string{"data", "log"}, namesOf(pod)); diff != "" {
		t.Error(diff)
	}
}
