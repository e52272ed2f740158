package chaperon

import (
	"errors"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/restriction"
)

// refusedForGood says whether another attempt to create this delegate would not help. The rules of a ClusterSource or
// Source forbid the delegate. Or the API server refuses it: validation, a missing namespace or service account, quota,
// PodSecurity, a webhook.
func refusedForGood(err error) bool {
	forbidden := (*restriction.RefusedError)(nil)
	return errors.As(err, &forbidden) || apierror.Of(err, apierror.Create).Refusal()
}
