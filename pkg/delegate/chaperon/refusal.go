package chaperon

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refused says whether the API server will not make this delegate however often it is asked: validation, a missing namespace or
// service account, quota, PodSecurity, a webhook. Webhooks refuse with any code they like, so all client errors count but
// those that another attempt can mend.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}
