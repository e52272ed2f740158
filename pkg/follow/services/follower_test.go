package services

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// mapper gives its answers one after the other.
type mapper struct {
	meta.RESTMapper

	answers []error
}

func (m *mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	err := m.answers[0]
	m.answers = m.answers[1:]
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Resource: "serviceexports"}}, err
}

func TestTheKindServiceExportIsAskedForUntilThereIsAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		want   bool
	}{
		"the kind exists":         {want: true},
		"the kind does not exist": {answer: &meta.NoKindMatchError{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mapper{answers: []error{errors.New("unavailable"), test.answer}}
				f := &Follower{options: Options{Mapper: m, Logger: logr.Discard()}, originals: &originals{}}
				if err := f.findExports(t.Context()); err != nil || len(m.answers) > 0 {
					t.Errorf("%d answers are left, error %v", len(m.answers), err)
				}
				if got := f.originals.exports != nil; got != test.want {
					t.Errorf("ServiceExports: got %t, want %t", got, test.want)
				}
			})
		})
	}
}

// TestCopiesAreLookedForAgainWithoutTheRightToListThem has a target that gives the right a while after connecting.
func TestCopiesAreLookedForAgainWithoutTheRightToListThem(t *testing.T) {
	var answer error = apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "", errors.New("not yet"))
	lists := 0
	reader := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			lists++
			return answer
		},
	}).Build()
	c := &copier{follower: &Follower{}, target: &engage.Target{APIReader: reader}}
	for range 2 {
		before := lists
		if again, err := c.Reconcile(t.Context(), item{}); err != nil || again.RequeueAfter == 0 || lists == before {
			t.Errorf("got %v, %v after %d lists, want that it looks again", again, err, lists-before)
		}
	}
	before := lists
	if _, err := c.Reconcile(t.Context(), item{kind: "any"}); err != nil || lists != before {
		t.Errorf("a Service waits for the right: %v after %d lists", err, lists-before)
	}
	answer = nil
	if again, err := c.Reconcile(t.Context(), item{}); err != nil || again.RequeueAfter != 0 {
		t.Errorf("got %v, %v, want an end", again, err)
	}
}

func TestAnEndIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &Follower{
		options:   Options{Mapper: &mapper{answers: []error{errors.New("unavailable"), nil}}, Logger: logr.Discard()},
		originals: &originals{},
	}
	if err := f.Start(ctx); err != nil {
		t.Errorf("Start: %v", err)
	}
}

func TestErrorsThatOnlyAPersonCanCorrectHaveAMessage(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTeapot,
		Message: `admission webhook "check.example.com" denied the request: no`,
	}}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no error":             {},
		"an error that passes": {err: apierrors.NewServiceUnavailable("busy")},
		"an object that is not ours": {
			err: fmt.Errorf("writing: %w", &writer.NotOursError{Kind: "Service"}),
			want: "there is a Service of that name, which does not come from this cluster, or has lost the " +
				"annotation multicluster.admiralty.io/followed-by; delete it there, or rename one of the two",
		},
		"a Secret that is refused": {
			err: fmt.Errorf("ensuring: %w", &needs.RefusedError{
				Ref:    needs.Ref{Resource: needs.Secrets, Name: "tls"},
				Reason: "exists there",
			}),
			want: `the TLS Secret "tls" exists there`,
		},
		"another object that was not found": {
			err: apierrors.NewNotFound(resource, "web"), want: `services "web" not found`,
		},
		"a namespace that does not exist": {
			err:  errors.Join(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")),
			want: `namespaces "shop" not found`,
		},
		"a webhook that denies with a code of its own": {
			err:  denied,
			want: `admission webhook "check.example.com" denied the request: no`,
		},
		"an object that changed meanwhile": {err: apierrors.NewConflict(resource, "web", errors.New("changed"))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusal(test.err); got != test.want {
				t.Errorf("refusal: got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHowARefusedCopyIsTriedAgain(t *testing.T) {
	noRight := errors.New(`User "c1" cannot create resource "services" in API group "" in the namespace "shop"`)
	forbidden := func(err error) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", err)
	}
	secret := func(class apierror.Class) error {
		return fmt.Errorf("ensuring: %w", &needs.RefusedError{
			Ref: needs.Ref{Resource: needs.Secrets, Name: "tls"}, Reason: "is refused there", Class: class,
		})
	}
	for name, test := range map[string]struct {
		err         error
		wait        time.Duration
		soon, noted bool
	}{
		"no error":              {},
		"a server that is busy": {err: apierrors.NewServiceUnavailable("busy"), soon: true},
		"a quota without room": {
			err: forbidden(errors.New("exceeded quota: q")), wait: refusedRetry, noted: true,
		},
		"rights that have not arrived":            {err: forbidden(noRight), soon: true, noted: true},
		"rights that have not arrived, wrapped":   {err: errors.Join(forbidden(noRight)), soon: true, noted: true},
		"rights on a TLS Secret that are missing": {err: secret(apierror.RightsMissing), soon: true, noted: true},
		"somebody else's TLS Secret":              {err: secret(apierror.OK), wait: refusedRetry, noted: true},
		"a namespace that does not exist": {
			err:  apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"),
			wait: refusedRetry,
		},
		"a namespace that does not exist for a TLS Secret": {
			err: secret(apierror.NamespaceMissing), wait: refusedRetry,
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := item{kindIngress, types.NamespacedName{Namespace: "shop", Name: "web"}}
			clock := clocktesting.NewFakePassiveClock(time.Unix(10000, 0))
			f := &Follower{originals: &originals{}, options: Options{Clock: clock}}
			c := &copier{follower: f, noted: map[item]noted{}}
			got, err := c.finish(t.Context(), i, 0, test.err)
			if got.RequeueAfter != test.wait || (err != nil) != test.soon {
				t.Errorf("result %v, error %v", got, err)
			}
			if _, noted := c.noted[i]; noted != test.noted {
				t.Errorf("noted: got %t, want %t", noted, test.noted)
			}
		})
	}
}
