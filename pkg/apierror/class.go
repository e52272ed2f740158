package apierror

import (
	"errors"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Operation is the kind of request that failed.
type Operation int

const (
	// Create makes an object in a namespace that may not exist.
	Create Operation = iota
	// Existing reads, changes or deletes an object that may not exist.
	Existing
)

// Class says how an API server failed to carry out a request.
type Class int

const (
	// OK is the class of no error.
	OK Class = iota
	// Unanswered requests may have been carried out: there was no answer, a server error, or the answer of a proxy.
	Unanswered
	// Unavailable servers did not carry out the request, and may do so later: too many requests, connection refused.
	Unavailable
	// Unauthorized credentials were not accepted. They may be about to be renewed.
	Unauthorized
	// NotFound means that the object does not exist.
	NotFound
	// AlreadyExists means that an object of that name exists.
	AlreadyExists
	// Conflict means that the object has changed or is another one than the request's preconditions say.
	Conflict
	// RightsMissing means that RBAC does not allow the request. After connecting, rights arrive with a delay.
	RightsMissing
	// NamespaceMissing means that the namespace does not exist.
	NamespaceMissing
	// NamespaceTerminating means that the namespace is being deleted.
	NamespaceTerminating
	// QuotaExceeded means that a ResourceQuota has no room for the object.
	QuotaExceeded
	// Denied means that an admission plugin, policy or webhook refuses the object.
	Denied
	// Invalid means that the server does not take such an object: validation, size, unknown version.
	Invalid
)

// Of classifies the error of a request. Wrapped errors count.
func Of(err error, operation Operation) Class {
	if err == nil {
		return OK
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		if utilnet.IsConnectionRefused(err) {
			return Unavailable
		}
		return Unanswered
	}
	status := answer.Status()
	if hasCause(&status, metav1.CauseTypeUnexpectedServerResponse) {
		return unexpected(&status)
	}
	switch status.Code {
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusTooManyRequests:
		return Unavailable
	case http.StatusRequestTimeout:
		return Unanswered
	case http.StatusConflict:
		return conflict(&status)
	case http.StatusNotFound:
		return notFound(&status, operation)
	case http.StatusForbidden:
		return forbidden(&status)
	}
	if status.Code < http.StatusBadRequest || status.Code >= http.StatusInternalServerError {
		return Unanswered
	}
	if isDenial(status.Message) {
		return Denied
	}
	return Invalid
}

// unexpected classifies an answer that is not an API server's own: a load balancer's, say.
func unexpected(status *metav1.Status) Class {
	switch status.Code {
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusTooManyRequests:
		return Unavailable
	default:
		return Unanswered
	}
}

func conflict(status *metav1.Status) Class {
	if status.Reason == metav1.StatusReasonAlreadyExists {
		return AlreadyExists
	}
	return Conflict
}

func notFound(status *metav1.Status, operation Operation) Class {
	if isDenial(status.Message) {
		return Denied
	}
	if operation != Create {
		return NotFound
	}
	if status.Details != nil && status.Details.Kind == "namespaces" {
		return NamespaceMissing
	}
	return Invalid // The kind is not there, or an object that this one refers to.
}

func forbidden(status *metav1.Status) Class {
	switch message := status.Message; {
	case hasCause(status, corev1.NamespaceTerminatingCause):
		return NamespaceTerminating
	case isDenial(message):
		return Denied
	case strings.Contains(message, "exceeded quota: "), strings.Contains(message, "failed quota: "):
		return QuotaExceeded
	case strings.Contains(message, `User "`) && strings.Contains(message, `" cannot `):
		return RightsMissing // The words of the API server's authorization filter: User "u" cannot create resource "r".
	default:
		return Denied
	}
}

// isDenial recognises the words that API servers put before the denial of a webhook or of an admission policy. Both may
// choose any code.
func isDenial(message string) bool {
	return strings.Contains(message, "admission webhook ") && strings.Contains(message, " denied the request") ||
		strings.Contains(message, "olicy ") && strings.Contains(message, " denied request: ")
}

func hasCause(status *metav1.Status, cause metav1.CauseType) bool {
	if status.Details == nil {
		return false
	}
	for i := range status.Details.Causes {
		if status.Details.Causes[i].Type == cause {
			return true
		}
	}
	return false
}

// StorageFull says whether an API server did not carry out a request because its etcd has no space. It can still read
// and delete.
func StorageFull(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && strings.Contains(answer.Status().Message, "mvcc: database space exceeded")
}

// NotStored says whether an API server surely did not store an object, although it calls that an error of its own: its
// etcd has no space, or it could not call an admission webhook. Whoever sent the request need not look for the object.
func NotStored(err error) bool {
	var answer apierrors.APIStatus
	return StorageFull(err) || errors.As(err, &answer) &&
		strings.Contains(answer.Status().Message, "failed calling webhook ")
}

// Refusal says whether the server understood the request and refused it. It will refuse the same request again until
// something changes there; another cluster may accept it.
func (c Class) Refusal() bool { return c >= RightsMissing }

// Unknown says whether the request may have been, or may still be, carried out.
func (c Class) Unknown() bool { return c == Unanswered }

// Message returns the API server's words alone, without the context that callers wrapped around them.
func Message(err error) string {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return answer.Status().Message
	}
	return err.Error()
}
