package engage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// noContainer is a name that no container can have.
const noContainer = "no.container"

// HasPod asks the target's API server whether a pod of this name exists. A source may not read pods in targets. But it
// may read their logs, and the logs of a container that does not exist are Not Found if there is no such pod, and a bad
// request if there is one. The kubelet is not asked. The error of a target that does not give this right is Forbidden.
// A target without Config has no pods.
func (t *Target) HasPod(ctx context.Context, key types.NamespacedName) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if t.FindsPod != nil {
		return t.FindsPod(ctx, key)
	}
	if t.Config == nil {
		return false, nil
	}
	pods, err := corev1client.NewForConfig(t.Config)
	if err != nil {
		return false, fmt.Errorf("making a client of target %q: %w", t.Key, err)
	}
	err = pods.Pods(key.Namespace).GetLogs(key.Name, &corev1.PodLogOptions{Container: noContainer}).Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err == nil, apierrors.IsBadRequest(err):
		return true, nil
	}
	return false, fmt.Errorf("looking whether pod %q exists: %w", key, err)
}
