package apierror

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	pods       = schema.GroupResource{Resource: "pods"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// status is an answer whose code admission chose.
func status(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func terminating() error {
	err := apierrors.NewForbidden(
		pods,
		"a",
		errors.New("unable to create new content in namespace x because it is being terminated"),
	)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"},
	}
	return err
}

func refusedConnection() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func TestOf(t *testing.T) {
	const (
		webhook = `admission webhook "check.example.com" denied the request: no`
		policy  = `pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`
		rbac    = `User "u" cannot create resource "pods" in API group "" in the namespace "x"`
		quota   = `exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`
	)
	forbidden := func(message string) error { return apierrors.NewForbidden(pods, "a", errors.New(message)) }
	for name, test := range map[string]struct {
		err       error
		operation Operation
		want      Class
	}{
		"no error":                          {nil, Create, OK},
		"a deadline that has passed":        {context.DeadlineExceeded, Create, Unanswered},
		"a connection that broke":           {errors.New("EOF"), Create, Unanswered},
		"a connection that was refused":     {refusedConnection(), Create, Unavailable},
		"an internal error":                 {apierrors.NewInternalError(errors.New("x")), Create, Unanswered},
		"a server that is not available":    {apierrors.NewServiceUnavailable("x"), Create, Unanswered},
		"a time-out of the server":          {apierrors.NewTimeoutError("x", 1), Create, Unanswered},
		"too many requests":                 {apierrors.NewTooManyRequests("x", 1), Create, Unavailable},
		"credentials that are not accepted": {apierrors.NewUnauthorized("x"), Create, Unauthorized},
		"an object that changed": {
			apierrors.NewConflict(pods, "a", errors.New("x")), Existing, Conflict,
		},
		"an object that exists":         {apierrors.NewAlreadyExists(pods, "a"), Create, AlreadyExists},
		"an object that does not exist": {apierrors.NewNotFound(pods, "a"), Existing, NotFound},
		"a namespace that does not exist": {
			apierrors.NewNotFound(namespaces, "x"), Create, NamespaceMissing,
		},
		"a namespace that is read and does not exist": {apierrors.NewNotFound(namespaces, "x"), Existing, NotFound},
		"a kind that does not exist": {
			status(http.StatusNotFound, "the server could not find the requested resource"), Create, Invalid,
		},
		"a namespace that is being deleted":     {terminating(), Create, NamespaceTerminating},
		"rights that are missing":               {forbidden(rbac), Create, RightsMissing},
		"a quota without room":                  {forbidden(quota), Create, QuotaExceeded},
		"a policy that denies with 403":         {status(http.StatusForbidden, policy), Create, Denied},
		"a policy that denies with 422":         {status(http.StatusUnprocessableEntity, policy), Create, Denied},
		"a webhook that denies with 403":        {status(http.StatusForbidden, webhook), Create, Denied},
		"a webhook that denies with 400":        {status(http.StatusBadRequest, webhook), Create, Denied},
		"a webhook that denies with 404":        {status(http.StatusNotFound, webhook), Create, Denied},
		"a webhook that quotes a missing right": {status(http.StatusForbidden, webhook+": "+rbac), Create, Denied},
		"pod security": {
			forbidden(`violates PodSecurity "restricted:latest": x`), Create, Denied,
		},
		"validation": {
			apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), Create, Invalid,
		},
		"a bad request":               {apierrors.NewBadRequest("x"), Create, Invalid},
		"an object that is too large": {apierrors.NewRequestEntityTooLargeError("x"), Create, Invalid},
		"a proxy that answers 403": {
			apierrors.NewGenericServerResponse(http.StatusForbidden, "POST", pods, "a", "<html>", 0, true), Create,
			Unanswered,
		},
		"a proxy that answers 429": {
			apierrors.NewGenericServerResponse(http.StatusTooManyRequests, "POST", pods, "a", "slow", 0, true), Create,
			Unavailable,
		},
		"a wrapped error": {fmt.Errorf("creating: %w", apierrors.NewUnauthorized("x")), Create, Unauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.err, test.operation); got != test.want {
				t.Errorf("got %d, want %d: %v", got, test.want, test.err)
			}
		})
	}
}

func TestRefusalsAreAnswersAboutTheObject(t *testing.T) {
	for class, want := range map[Class]bool{
		OK: false, Unanswered: false, Unavailable: false, Unauthorized: false, NotFound: false,
		AlreadyExists: false, Conflict: false,
		RightsMissing: true, NamespaceMissing: true, NamespaceTerminating: true, QuotaExceeded: true,
		Denied: true, Invalid: true,
	} {
		if got := class.Refusal(); got != want {
			t.Errorf("class %d: got %t, want %t", class, got, want)
		}
	}
}

func TestMessageIsTheServersAlone(t *testing.T) {
	err := fmt.Errorf("creating the copy: %w", status(http.StatusForbidden, "no"))
	if got := Message(err); got != "no" {
		t.Errorf("got %q", got)
	}
}

func TestWhichErrorsOfAServerSayThatNothingWasStored(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"etcd is full": {apierrors.NewInternalError(errors.New("etcdserver: mvcc: database space exceeded")), true},
		"a webhook cannot be called": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "w": connection refused`)), true,
		},
		"the server fails":              {apierrors.NewInternalError(errors.New("down")), false},
		"a proxy says so, in its words": {errors.New(`failed calling webhook "w"`), false},
		"the request was not answered":  {os.ErrDeadlineExceeded, false},
		"there is no error":             {nil, false},
		"the error is wrapped": {
			fmt.Errorf("creating: %w", apierrors.NewInternalError(errors.New("failed calling webhook \"w\""))), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NotStored(test.err); got != test.want {
				t.Errorf("not stored: %t", got)
			}
		})
	}
}
