package chaperon

import "github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"

// refusedForGood says whether the API server refuses to create this delegate, and another attempt would not help:
// validation, a missing namespace or service account, quota, PodSecurity, a webhook.
func refusedForGood(err error) bool { return apierror.Of(err, apierror.Create).Refusal() }
