package chaperon

import "github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"

// refusedForGood says whether the API server will not create this delegate however often it is asked: validation, a missing
// namespace or service account, quota, PodSecurity, a webhook.
func refusedForGood(err error) bool { return apierror.Of(err, apierror.Create).Refusal() }
