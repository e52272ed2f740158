package writer

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// api answers the requests of a Writer, each with the next of the answers to its verb, and notes the requests. Without
// an answer, it agrees.
type api struct {
	requests []string
	answers  map[string][]error
	// parent is whose copy the object is, for those who may read it.
	parent string
	// bare says that somebody has removed the annotations of the copy.
	bare bool
	// created is the last object that was created, and patched the last patch.
	created client.Object
	patched string
}

func (a *api) answer(verb string) error {
	a.requests = append(a.requests, verb)
	answers := a.answers[verb]
	if len(answers) == 0 {
		return nil
	}
	a.answers[verb] = answers[1:]
	return answers[0]
}

func (a *api) client() client.WithWatch {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
				review.Status.UserInfo.Username = "system:serviceaccount:ns:c1"
				return a.answer("who")
			}
			if len(options) == 1 && options[0] == client.DryRunAll {
				return a.answer("probe")
			}
			a.created = o
			return a.answer("create")
		},
		Update: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.UpdateOption) error {
			return a.answer(strings.TrimSpace("update " + string(o.GetUID()) + o.GetResourceVersion()))
		},
		Patch: func(
			_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption,
		) error {
			data, err := p.Data(o)
			if err != nil {
				return err
			}
			var operations []any
			if err := json.Unmarshal(data, &operations); err != nil {
				return err
			}
			a.patched = string(data)
			if !a.bare {
				o.SetAnnotations(map[string]string{v1alpha1.AnnotationFollowedBy: ""})
			}
			o.SetUID("seen")
			o.SetResourceVersion("@1")
			if len(operations) == 1 {
				return a.answer("test")
			}
			return a.answer("patch")
		},
		Get: func(
			_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
		) error {
			o.SetLabels(map[string]string{v1alpha1.LabelParentClusterID: a.parent})
			o.SetUID("read")
			o.SetResourceVersion("@1")
			return a.answer("get")
		},
		Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
			verb := "delete"
			for _, option := range options {
				if p, ok := option.(client.Preconditions); ok {
					verb += " " + string(*p.UID) + *p.ResourceVersion
				}
			}
			return a.answer(verb)
		},
	}).Build()
}

func objectOf(kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": "b"}}}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	object.SetNamespace("shop")
	object.SetName("web")
	return object
}

func resource() schema.GroupResource { return schema.GroupResource{Resource: "things"} }

// byPolicy is the denial of the chart's policy, and by somebody else's.
func byPolicy() error {
	return apierrors.NewForbidden(resource(), "web", errors.New("it must have "+v1alpha1.AnnotationFollowedBy))
}

func bySomebody() error { return apierrors.NewForbidden(resource(), "web", errors.New("no")) }

func refused(kind string) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, "web", nil)
}

func isNotOurs(err error) bool { return errors.As(err, new(*NotOursError)) }

func TestOnlyCopiesOfThisSourceAreChanged(t *testing.T) {
	busy := apierrors.NewServiceUnavailable("busy")
	unmentioned := apierrors.NewBadRequest("an invalid " + v1alpha1.AnnotationFollowedBy)
	exists := apierrors.NewAlreadyExists(resource(), "web")
	for name, test := range map[string]struct {
		kind    string
		parent  string
		bare    bool
		answers map[string][]error
		want    []string
		err     func(error) bool
	}{
		"a copy of another kind is patched": {kind: "Service", want: []string{"patch"}},
		"the policy denies a patch": {
			kind: "Service", answers: map[string][]error{"patch": {byPolicy()}}, want: []string{"patch"},
			err: isNotOurs,
		},
		"somebody else denies a patch": {
			kind: "Service", answers: map[string][]error{"patch": {bySomebody()}}, want: []string{"patch"},
			err: apierrors.IsForbidden,
		},
		"an error that names the policy's annotation is no denial": {
			kind: "Service", answers: map[string][]error{"patch": {unmentioned}}, want: []string{"patch"},
			err: apierrors.IsBadRequest,
		},
		"an object of others is left alone": {
			kind: "Service", answers: map[string][]error{"patch": {refused("Service")}, "test": {refused("Service")}},
			want: []string{"patch", "test"}, err: isNotOurs,
		},
		"nobody says whose it is": {
			kind: "Service", answers: map[string][]error{"patch": {refused("Service")}, "test": {busy}},
			want: []string{"patch", "test"}, err: apierrors.IsServiceUnavailable,
		},
		"a copy that cannot be changed is made anew": {
			kind: "Service", answers: map[string][]error{"patch": {refused("Service")}, "create": {exists}},
			want: []string{"patch", "test", "create", "delete seen@1", "create"},
		},
		"a copy from which somebody has removed the annotations gets them": {
			kind: "Service", bare: true, answers: map[string][]error{"patch": {refused("Service")}},
			want: []string{"patch", "test", "patch"},
		},
		"a copy without annotations that cannot be changed is made anew": {
			kind: "Service", bare: true, answers: map[string][]error{
				"patch": {refused("Service"), refused("Service")}, "create": {exists},
			},
			want: []string{"patch", "test", "patch", "create", "delete seen@1", "create"},
		},
		"a copy that the target would refuse is not deleted": {
			kind:    "Service",
			answers: map[string][]error{"patch": {refused("Service")}, "create": {refused("Service")}},
			want:    []string{"patch", "test", "create"}, err: apierrors.IsInvalid,
		},
		"the policy keeps a copy from being deleted": {
			kind: "Service", answers: map[string][]error{
				"patch": {refused("Service")}, "create": {exists}, "delete seen@1": {byPolicy()},
			},
			want: []string{"patch", "test", "create", "delete seen@1"}, err: isNotOurs,
		},
		"a copy that cannot be deleted is not made anew": {
			kind: "Service", answers: map[string][]error{
				"patch": {refused("Service")}, "create": {exists}, "delete seen@1": {busy},
			},
			want: []string{"patch", "test", "create", "delete seen@1"},
			err:  func(err error) bool { return errors.Is(err, busy) },
		},
		"where the policy applies, a Secret is replaced": {
			kind: "Secret", answers: map[string][]error{"probe": {byPolicy()}}, want: []string{"probe", "update"},
		},
		"the policy denies the replacement": {
			kind: "Secret", answers: map[string][]error{"probe": {byPolicy()}, "update": {byPolicy()}},
			want: []string{"probe", "update"}, err: isNotOurs,
		},
		"who may read sees that a Secret is a copy": {
			kind: "Secret", parent: "c1", want: []string{"probe", "get", "update read@1"},
		},
		"who may read sees that a Secret is no copy": {
			kind: "Secret", parent: "c9", want: []string{"probe", "get"}, err: isNotOurs,
		},
		"who may not read, and no policy binds, writes nothing": {
			kind: "Secret", parent: "c1", answers: map[string][]error{"get": {bySomebody()}},
			want: []string{"probe", "get"},
			err:  func(err error) bool { return errors.As(err, new(*UnguardedError)) },
		},
		"who may not read, and got another answer to the probe, reports that answer": {
			kind: "Secret", parent: "c1", answers: map[string][]error{"probe": {busy}, "get": {bySomebody()}},
			want: []string{"probe", "get"}, err: apierrors.IsServiceUnavailable,
		},
		"a target that does not answer": {
			kind: "Secret", parent: "c1", answers: map[string][]error{"get": {busy}}, want: []string{"probe", "get"},
			err: apierrors.IsServiceUnavailable,
		},
		"who may read sees a copy, and somebody makes it their own": {
			kind: "Secret", parent: "c1",
			answers: map[string][]error{"update read@1": {apierrors.NewConflict(resource(), "web", nil)}},
			want:    []string{"probe", "get", "update read@1"}, err: apierrors.IsConflict,
		},
		"a Secret that must not be changed is made anew": {
			kind: "Secret", parent: "c1",
			answers: map[string][]error{"update read@1": {refused("Secret")}, "create": {exists}},
			want:    []string{"probe", "get", "update read@1", "create", "delete read@1", "create"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{answers: test.answers, parent: test.parent, bare: test.bare}
			c := a.client()
			err := NewWriter(c, c, translate.Source{ClusterID: "c1"}).Write(t.Context(), objectOf(test.kind), true)
			if (err != nil) != (test.err != nil) || err != nil && !test.err(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(append([]string{"who"}, test.want...), a.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACopySaysWhoseItIs(t *testing.T) {
	for name, source := range map[string]translate.Source{
		"a source with a name":    {ClusterID: "c1", ClusterName: "eu"},
		"a source without a name": {ClusterID: "c1"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{}
			c := a.client()
			w := NewWriter(c, c, source)
			for range 2 {
				if err := w.Create(t.Context(), objectOf("Secret")); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string]string{v1alpha1.LabelParentClusterID: "c1"}
			if source.ClusterName != "" {
				want[v1alpha1.LabelParentClusterName] = source.ClusterName
			}
			if diff := cmp.Diff(want, a.created.GetLabels()); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if got := a.created.GetAnnotations()[v1alpha1.AnnotationFollowedBy]; !strings.HasSuffix(got, ":c1") {
				t.Errorf("followed by %q", got)
			}
			if diff := cmp.Diff([]string{"who", "create", "create"}, a.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNothingIsWrittenUnderAnUnknownName has a target that does not say who we are.
func TestNothingIsWrittenUnderAnUnknownName(t *testing.T) {
	a := &api{answers: map[string][]error{"who": {bySomebody(), bySomebody()}}}
	c := a.client()
	w := NewWriter(c, c, translate.Source{ClusterID: "c1"})
	if err := w.Create(t.Context(), objectOf("Secret")); !apierrors.IsForbidden(err) {
		t.Errorf("Create: %v", err)
	}
	if err := w.Write(t.Context(), objectOf("Secret"), false); !apierrors.IsForbidden(err) {
		t.Errorf("Write: %v", err)
	}
	if diff := cmp.Diff([]string{"who", "who"}, a.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	exists := apierrors.NewAlreadyExists(resource(), "web")
	a.answers = map[string][]error{"create": {exists}}
	if err := w.Create(t.Context(), objectOf("Secret")); !apierrors.IsAlreadyExists(err) {
		t.Errorf("Create of an object that exists: %v", err)
	}
}

func TestDelete(t *testing.T) {
	for name, test := range map[string]struct {
		uid    types.UID
		answer error
		want   string
		err    func(error) bool
	}{
		"the copy as it was seen": {uid: "1", want: "delete 1@1"},
		"the copy of this name":   {want: "delete"},
		"a copy that is gone":     {want: "delete", answer: apierrors.NewNotFound(resource(), "web")},
		"a copy that is another by now": {
			uid: "1", want: "delete 1@1", answer: apierrors.NewConflict(resource(), "web", nil),
		},
		"a copy that nobody lets us have": {want: "delete", answer: bySomebody(), err: apierrors.IsForbidden},
		"an object that the policy takes for nobody's copy": {
			uid: "1", want: "delete 1@1", answer: byPolicy(), err: isNotOurs,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{answers: map[string][]error{test.want: {test.answer}}}
			c := a.client()
			w := NewWriter(c, c, translate.Source{ClusterID: "c1"})
			object := &corev1.Secret{}
			object.Name, object.UID, object.ResourceVersion = "web", test.uid, "@1"
			only := metav1.Preconditions{}
			if test.uid != "" {
				only = AsSeen(object)
			}
			err := w.Delete(t.Context(), object, only)
			if (err != nil) != (test.err != nil) || err != nil && !test.err(err) {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff([]string{test.want}, a.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
