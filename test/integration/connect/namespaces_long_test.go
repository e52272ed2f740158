//go:build long

package connect

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestARefusedNamespaceIsEmptyIfTheSourceGrantSaysSo takes as long as the SourceGrant must say so.
func TestARefusedNamespaceIsEmptyIfTheSourceGrantSaysSo(t *testing.T) {
	says, silent := env.Namespace(t, nil, c1, c2), env.Namespace(t, nil, c1, c2)
	login := c2.User(t, "ivan")
	newGrant(t, "ivan", v1alpha1.SourceGrantStatus{
		ClusterID: sourceID, Withheld: &v1alpha1.WithheldNamespaces{Namespaces: []string{silent}},
	})
	key, _ := connect(t, login)
	target := engagedTarget(t, key)
	read := func(ctx context.Context, namespace string) error {
		return target.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "x"}, &v1alpha1.PodChaperon{})
	}
	for _, namespace := range []string{says, silent} {
		if err := read(t.Context(), namespace); !apierrors.IsForbidden(err) {
			t.Errorf("at first: %v, want forbidden", err)
		}
	}
	env.Must(t, wait.PollUntilContextTimeout(t.Context(), time.Second, 3*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			err := read(ctx, says)
			if apierrors.IsForbidden(err) {
				return false, nil
			}
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}))
	if err := read(t.Context(), silent); !apierrors.IsForbidden(err) {
		t.Errorf("where the SourceGrant says that something is there: %v, want forbidden", err)
	}
}
