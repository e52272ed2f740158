package engage

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var errAway = errors.New("the target does not answer")

func answer(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

func TestATargetWithoutAnybodyToAskIsConfirmed(t *testing.T) {
	if err := (&Target{}).Confirm(t.Context()); err != nil {
		t.Errorf("error is %v", err)
	}
	if err := (&Target{Confirms: answer(errAway)}).Confirm(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("error is %v, want %v", err, errAway)
	}
}

func TestWhenATargetSurelyHasNothingInANamespace(t *testing.T) {
	nothing := func(namespace string) bool { return namespace == "left" }
	now := func(err error) func(context.Context, string) error {
		return func(_ context.Context, namespace string) error {
			if namespace != "left" {
				return errors.New("another namespace is asked for")
			}
			return err
		}
	}
	for name, test := range map[string]struct {
		target         *Target
		namespace      string
		says, confirms bool
	}{
		"nobody knows":          {&Target{FindsNothingNow: now(nil)}, "left", false, false},
		"it may have something": {&Target{FindsNothing: nothing, FindsNothingNow: now(nil)}, "used", false, false},
		"it says so":            {&Target{FindsNothing: nothing}, "left", true, true},
		"it says so, now too":   {&Target{FindsNothing: nothing, FindsNothingNow: now(nil)}, "left", true, true},
		"it says so no more":    {&Target{FindsNothing: nothing, FindsNothingNow: now(errAway)}, "left", true, false},
		"it may be set back":    {&Target{FindsNothing: nothing, Confirms: answer(errAway)}, "left", true, false},
	} {
		if got := test.target.HasNothingIn(test.namespace); got != test.says {
			t.Errorf("%s: HasNothingIn is %t", name, got)
		}
		if got := test.target.ConfirmsNothingIn(t.Context(), test.namespace); got != test.confirms {
			t.Errorf("%s: ConfirmsNothingIn is %t", name, got)
		}
	}
}

func TestAnObjectIsRecognisedByItsUID(t *testing.T) {
	object := func(name, uid string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}}
	}
	exist := fake.NewClientBuilder().WithObjects(object("a", "1"), object("anonymous", "")).Build()
	silent := fake.NewClientBuilder().WithObjects(object("a", "1")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, found client.Object,
			_ ...client.GetOption,
		) error {
			found.SetUID("1")
			return errAway
		},
	}).Build()
	for name, test := range map[string]struct {
		object client.Object
		reader client.Reader
		want   bool
	}{
		"the very object":                  {object("a", "1"), exist, true},
		"another object of the name":       {object("a", "2"), exist, false},
		"no such object":                   {object("b", "1"), exist, false},
		"a target that tells no UID":       {object("anonymous", ""), exist, false},
		"a target that tells no UID of it": {object("anonymous", "1"), exist, false},
		"a target that does not answer":    {object("a", "1"), silent, false},
		"a kind that nobody knows":         {&v1alpha1.PodChaperon{}, exist, false},
	} {
		target := &Target{
			APIReader: test.reader,
			Client:    fake.NewClientBuilder().WithScheme(withCore(t)).Build(),
		}
		if got := target.Has(t.Context(), test.object); got != test.want {
			t.Errorf("%s: Has is %t", name, got)
		}
	}
}

func withCore(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func TestAPodIsFoundByItsLogs(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		found bool
		fails func(error) bool
	}{
		"the container does not exist":     {http.StatusBadRequest, true, nil},
		"a target that shows logs of it":   {http.StatusOK, true, nil},
		"the pod does not exist":           {http.StatusNotFound, false, nil},
		"this source may not read logs":    {http.StatusForbidden, false, apierrors.IsForbidden},
		"the target answers with an error": {http.StatusInternalServerError, false, apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.String()
				w.WriteHeader(test.code)
			}))
			defer server.Close()
			target := &Target{Config: &rest.Config{Host: server.URL}}
			found, err := target.HasPod(t.Context(), types.NamespacedName{Namespace: "shop", Name: "p"})
			if found != test.found || (err != nil) != (test.fails != nil) || err != nil && !test.fails(err) {
				t.Errorf("found it: %t, error: %v", found, err)
			}
			if want := "/api/v1/namespaces/shop/pods/p/log?container=" + noContainer; asked != want {
				t.Errorf("asked for %q, want %q", asked, want)
			}
		})
	}
}

func TestWhoElseKnowsWhetherAPodExists(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "p"}
	if found, err := (&Target{}).HasPod(t.Context(), key); found || err != nil {
		t.Errorf("a target without a login has a pod: %t, error: %v", found, err)
	}
	other := &Target{FindsPod: func(_ context.Context, asked types.NamespacedName) (bool, error) {
		return asked == key, errAway
	}}
	if found, err := other.HasPod(t.Context(), key); !found || !errors.Is(err, errAway) {
		t.Errorf("found it: %t, error: %v, want what FindsPod says", found, err)
	}
	unusable := &Target{Config: &rest.Config{Host: "::"}}
	if found, err := unusable.HasPod(t.Context(), key); found || err == nil {
		t.Errorf("a target whose address cannot be read has a pod: %t, error: %v", found, err)
	}
}
