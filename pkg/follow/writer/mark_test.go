package writer

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestACopyThatHasLostItsMarkGetsItBack(t *testing.T) {
	const (
		ours = `{"op":"test","path":"/metadata/uid","value":"1"},` +
			`{"op":"test","path":"/metadata/labels/multicluster.admiralty.io~1parent-cluster-id","value":"c1"}`
		mark = `{"op":"add","path":"/metadata/annotations/multicluster.admiralty.io~1followed-by",` +
			`"value":"system:serviceaccount:ns:c1"}`
		first = `{"op":"test","path":"/metadata/resourceVersion","value":"@1"},` +
			`{"op":"add","path":"/metadata/annotations",` +
			`"value":{"multicluster.admiralty.io/followed-by":"system:serviceaccount:ns:c1"}}`
		change = `{"op":"add","path":"/spec","value":"new"}`
		asSeen = `[{"op":"test","path":"/metadata/resourceVersion","value":"@1"}]`
	)
	marked := map[string]string{v1alpha1.AnnotationFollowedBy: "somebody"}
	unmarked := map[string]string{v1alpha1.AnnotationIsDelegate: ""}
	for name, test := range map[string]struct {
		annotations map[string]string
		changes     []patch.Operation
		answers     map[string][]error
		want        []string
		patch       string
		err         func(error) bool
	}{
		"a copy that is as it should be is not written": {annotations: marked},
		"the mark of a copy that changes stays": {
			annotations: marked, changes: []patch.Operation{patch.Add("/spec", "new")},
			want: []string{"patch"}, patch: "[" + ours + "," + change + "]",
		},
		"a copy without the mark is written, though nothing else changes": {
			annotations: unmarked, want: []string{"who", "patch"}, patch: "[" + ours + "," + mark + "]",
		},
		"a copy without annotations is written as it was seen": {
			changes: []patch.Operation{patch.Add("/spec", "new")},
			want:    []string{"who", "patch"}, patch: "[" + ours + "," + first + "," + change + "]",
		},
		"the policy takes a copy without the mark for nobody's": {
			annotations: unmarked, answers: map[string][]error{"patch": {byPolicy()}},
			want: []string{"who", "patch"}, patch: "[" + ours + "," + mark + "]",
			err: func(err error) bool {
				var notOurs *NotOursError
				return errors.As(err, &notOurs) && *notOurs == NotOursError{"Service", "shop", "web"}
			},
		},
		"a copy that is gone is no error": {
			annotations: unmarked, answers: map[string][]error{"patch": {apierrors.NewNotFound(resource(), "web")}},
			want: []string{"who", "patch"}, patch: "[" + ours + "," + mark + "]",
		},
		"a copy that somebody has recreated or made their own is left alone, and is no refusal": {
			annotations: unmarked,
			answers:     map[string][]error{"patch": {refused("Service")}, "test": {refused("Service")}},
			want:        []string{"who", "patch", "test"}, patch: asSeen,
		},
		"a copy that is gone after all is no refusal": {
			annotations: unmarked, answers: map[string][]error{
				"patch": {refused("Service")}, "test": {apierrors.NewNotFound(resource(), "web")},
			},
			want: []string{"who", "patch", "test"}, patch: asSeen,
		},
		"a copy that is as it was seen, and is refused": {
			annotations: unmarked, answers: map[string][]error{"patch": {refused("Service")}},
			want: []string{"who", "patch", "test"}, patch: asSeen, err: apierrors.IsInvalid,
		},
		"a refused copy at which nobody can look is tried again": {
			annotations: unmarked, answers: map[string][]error{
				"patch": {refused("Service")}, "test": {apierrors.NewServiceUnavailable("busy")},
			},
			want: []string{"who", "patch", "test"}, patch: asSeen, err: apierrors.IsServiceUnavailable,
		},
		"a copy is not marked with an unknown name": {
			annotations: unmarked, answers: map[string][]error{"who": {bySomebody()}}, want: []string{"who"},
			err: apierrors.IsForbidden,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{answers: test.answers}
			c := a.client()
			there := &corev1.Service{}
			there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
			there.Namespace, there.Name, there.UID, there.ResourceVersion = "shop", "web", "1", "@1"
			there.Annotations = test.annotations
			err := NewWriter(c, c, translate.Source{ClusterID: "c1"}).Patch(t.Context(), there, test.changes)
			if (err != nil) != (test.err != nil) || err != nil && !test.err(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, a.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if a.patched != test.patch {
				t.Errorf("patch %s\nwant  %s", a.patched, test.patch)
			}
		})
	}
}
