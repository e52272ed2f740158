package garbagecollection

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	seen := func(version string, ago time.Duration) *sighting { return &sighting{version, now.Add(-ago)} }
	for name, test := range map[string]struct {
		change func(*metav1.PartialObjectMetadata)
		needed bool
		before *sighting
		want   decision
	}{
		"a copy that is needed stays":                 {needed: true},
		"a copy that is needed again starts afresh":   {needed: true, before: seen("7", time.Hour)},
		"a copy that is not needed waits two minutes": {want: decision{seen: seen("7", 0), wait: 2 * time.Minute}},
		"a copy that has waited one minute waits another minute": {
			before: seen("7", time.Minute),
			want:   decision{seen: seen("7", time.Minute), wait: time.Minute},
		},
		"a copy that has waited two minutes is removed": {
			before: seen("7", 2*time.Minute),
			want:   decision{seen: seen("7", 2*time.Minute), remove: true},
		},
		"a copy that was written meanwhile waits anew": {
			before: seen("6", time.Hour),
			want:   decision{seen: seen("7", 0), wait: 2 * time.Minute},
		},
		"a copy that is being deleted already is left alone": {change: deleted, before: seen("7", time.Hour)},
		"an object that no source marked as its own is left alone": {
			change: without(v1alpha1.AnnotationFollowedBy),
			before: seen("7", time.Hour),
		},
		"an object without the ID of a source is left alone": {
			change: without(v1alpha1.LabelParentClusterID),
			before: seen("7", time.Hour),
		},
		"a mark without a name is a mark, from old targets": {
			change: func(o *metav1.PartialObjectMetadata) { o.Annotations[v1alpha1.AnnotationFollowedBy] = "" },
			before: seen("7", time.Hour), want: decision{seen: seen("7", time.Hour), remove: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := copyOf("c1", "db")
			if test.change != nil {
				test.change(object)
			}
			got := decideCopy(object, test.needed, test.before, now, 2*time.Minute)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(decision{}, sighting{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func copyOf(source, name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: "uid", ResourceVersion: "7",
		Labels:      map[string]string{v1alpha1.LabelParentClusterID: source},
		Annotations: map[string]string{v1alpha1.AnnotationFollowedBy: "user-" + source},
	}}
}

func deleted(o *metav1.PartialObjectMetadata) {
	o.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
}

func without(mark string) func(*metav1.PartialObjectMetadata) {
	return func(o *metav1.PartialObjectMetadata) {
		delete(o.Labels, mark)
		delete(o.Annotations, mark)
	}
}
