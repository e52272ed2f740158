package claims

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// answering makes a cluster whose API server answers reads and patches of claims with an error, unless it is nil.
func answering(err error, claims ...client.Object) *cluster {
	return &cluster{
		target: &engage.Target{},
		client: fake.NewClientBuilder().WithObjects(claims...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				options ...client.GetOption,
			) error {
				if err != nil {
					return err
				}
				return c.Get(ctx, key, o, options...)
			},
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return err
			},
		}).Build(),
	}
}

func forbidden(reason string) error {
	return apierrors.NewForbidden(
		schema.GroupResource{Resource: "persistentvolumeclaims"}, "data", errors.New(reason),
	)
}

const noRight = `User "c1" cannot get resource "persistentvolumeclaims" in API group "" in the namespace "shop"`

func data() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
}

// TestCopiesAreLookedForAgainWithoutTheRightToListThem has a target that gives the right a while after connecting.
func TestCopiesAreLookedForAgainWithoutTheRightToListThem(t *testing.T) {
	answer := forbidden("not yet")
	target := &cluster{target: &engage.Target{}}
	target.client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return answer },
	}).Build()
	c := &Claims{options: Options{Logger: logr.Discard()}}
	for range 2 {
		if again, err := c.findCopies(t.Context(), "", target); err != nil || again.RequeueAfter == 0 {
			t.Errorf("got %v, %v, want that it looks again", again, err)
		}
	}
	answer = nil
	if again, err := c.findCopies(t.Context(), "", target); err != nil || again.RequeueAfter != 0 {
		t.Errorf("got %v, %v, want an end", again, err)
	}
}

func TestARefusalToShowAClaimHasItsClass(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		want   apierror.Class
	}{
		"rights that have not arrived": {forbidden(noRight), apierror.RightsMissing},
		"another refusal":              {forbidden("no"), apierror.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Claims{source: answering(nil, data())}
			_, _, err := c.situationOf(t.Context(), client.ObjectKeyFromObject(data()), answering(test.answer))
			var refused *needs.RefusedError
			if !errors.As(err, &refused) || refused.Class != test.want {
				t.Errorf("error %v, want one of class %d", err, test.want)
			}
		})
	}
}

func TestARefusedExpansionIsReported(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusBadRequest,
		Message: `admission webhook "check.example.com" denied the request: no`,
	}}
	for name, test := range map[string]struct {
		answer            error
		reported, retried bool
		later             bool
	}{
		"no error":             {},
		"a quota without room": {answer: forbidden("exceeded quota: q"), reported: true, later: true},
		"a class that does not expand": {
			answer: forbidden("only dynamically provisioned pvc can be resized"), reported: true,
		},
		"a webhook that denies":        {answer: denied, reported: true},
		"rights that have not arrived": {answer: forbidden(noRight), reported: true, retried: true},
		"a copy that is gone": {
			answer: apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, "data"),
		},
		"a server that is busy": {answer: apierrors.NewServiceUnavailable("busy"), retried: true},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			c := &Claims{options: Options{Recorder: recorder}}
			result, err := c.expandCopy(t.Context(), data(), data(), answering(test.answer))
			if retried := err != nil; retried != test.retried {
				t.Errorf("error %v", err)
			}
			if later := result.RequeueAfter > 0; later != test.later {
				t.Errorf("tried again after %s, want that it is: %t", result.RequeueAfter, test.later)
			}
			if reported := len(recorder.Events) > 0; reported != test.reported {
				t.Errorf("reported: got %t, want %t", reported, test.reported)
			}
		})
	}
}
