package gate

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// newServer returns a target's API server with these objects, which answers as funcs say.
func newServer(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func service(namespace string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
}

func TestALiveReadOfAForgeryIsNotNotFound(t *testing.T) {
	web, db := newProxy(), named("db")
	good, bad := newChaperon(web), newChaperon(db, forgedName)
	reader := newGate(t, web, db).Reader(newServer(t, interceptor.Funcs{}, good, bad))
	err := reader.Get(t.Context(), client.ObjectKeyFromObject(bad), &v1alpha1.PodChaperon{})
	expectRefusal(t, err, "its name is not the one that belongs to its pod")
	if apierrors.IsNotFound(err) {
		t.Error("a forgery looks like an object that does not exist")
	}
	if err := reader.Get(t.Context(), client.ObjectKeyFromObject(good), &v1alpha1.PodChaperon{}); err != nil {
		t.Error(err)
	}
	missing := client.ObjectKey{Namespace: "team", Name: "missing"}
	if err := reader.Get(t.Context(), missing, &v1alpha1.PodChaperon{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
}

func TestALiveReadIsOfTheObjectThatWasAskedFor(t *testing.T) {
	reader := newGate(t).Reader(newServer(t, interceptor.Funcs{
		Get: func(
			_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
		) error {
			o.SetNamespace("team")
			o.SetName("another")
			return nil
		},
	}))
	err := reader.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "web"}, &corev1.Service{})
	expectRefusal(t, err, `the target was asked for "team/web"`)
}

func TestALiveListLeavesOutWhatDoesNotPass(t *testing.T) {
	reader := newGate(t).Reader(newServer(t, interceptor.Funcs{}, service("team"), service("kube-system")))
	metadata := &metav1.PartialObjectMetadataList{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	if err := reader.List(t.Context(), metadata); err != nil {
		t.Fatal(err)
	}
	if len(metadata.Items) != 1 || metadata.Items[0].Namespace != "team" || metadata.Items[0].Kind != "Service" {
		t.Errorf("got %v, want the Service of team", metadata.Items)
	}
}

func TestWritesGoToAllowedNamespacesOnly(t *testing.T) {
	server := newServer(t, interceptor.Funcs{}, service("kube-system"))
	c := newGate(t).Client(server, server)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
	for name, write := range map[string]func(client.Object) error{
		"create": func(o client.Object) error { return c.Create(t.Context(), o) },
		"update": func(o client.Object) error { return c.Update(t.Context(), o) },
		"patch":  func(o client.Object) error { return c.Patch(t.Context(), o, patch) },
		"delete": func(o client.Object) error { return c.Delete(t.Context(), o) },
	} {
		t.Run(name, func(t *testing.T) {
			expectRefusal(t, write(service("kube-system")), "the target may not have objects of its namespace")
			if err := write(service("team")); errors.As(err, new(*ForgedError)) {
				t.Errorf("in an allowed namespace: %v", err)
			}
		})
	}
	for name, err := range map[string]error{
		"deleting all":  c.DeleteAllOf(t.Context(), service("team")),
		"applying":      c.Apply(t.Context(), nil),
		"a status":      c.Status().Update(t.Context(), service("team")),
		"a subresource": c.SubResource("scale").Patch(t.Context(), service("team"), patch),
	} {
		if !errors.Is(err, errNotOffered) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTheAnswerToACreationIsThatPodChaperon(t *testing.T) {
	for name, test := range map[string]struct {
		answer  func(*v1alpha1.PodChaperon)
		refusal string
	}{
		"the same":    {func(*v1alpha1.PodChaperon) {}, ""},
		"another":     {func(c *v1alpha1.PodChaperon) { c.Name = "another" }, "the target was asked to create"},
		"another UID": {func(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelParentUID] = "2" }, "its name is not"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					test.answer(o.(*v1alpha1.PodChaperon))
					return nil
				},
			})
			err := newGate(t).Client(server, server).Create(t.Context(), newChaperon(newProxy()))
			expectRefusal(t, err, test.refusal)
		})
	}
}
