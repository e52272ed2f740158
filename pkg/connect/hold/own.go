package hold

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// LeaderLease is the Lease of the leader election of the source's manager, as OwnLease.
type LeaderLease struct {
	Leases coordination.LeaseInterface
	Name   string
}

// NextHolder reads the annotation.
func (l LeaderLease) NextHolder(ctx context.Context) (string, error) {
	lease, err := l.Leases.Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("getting Lease %q: %w", l.Name, err)
	}
	return lease.Annotations[v1alpha1.AnnotationNextHolder], nil
}

// SetNextHolder writes the annotation. The leader election keeps it.
func (l LeaderLease) SetNextHolder(ctx context.Context, holder string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{v1alpha1.AnnotationNextHolder: holder},
	}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	options := metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner}
	if _, err := l.Leases.Patch(ctx, l.Name, types.MergePatchType, patch, options); err != nil {
		return fmt.Errorf("patching Lease %q: %w", l.Name, err)
	}
	return nil
}
