package identity

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// OtherClusterError says that another cluster answers than the one that the target belongs to.
type OtherClusterError struct {
	// Want is the ID of the cluster that the target belongs to, and Seen that of the cluster that answers.
	Want, Seen string
}

// Error names both clusters.
func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("the cluster %q answers, and not %q", e.Seen, e.Want)
}

// UnknownError says that the cluster that answers does not tell its ID.
type UnknownError struct {
	// Want is the ID of the cluster that the target belongs to.
	Want string
}

// Error names the cluster that should have answered.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("the cluster that answers does not say whether it is %q", e.Want)
}

// Identity is the cluster that one engagement of a target belongs to. It is safe for concurrent use.
type Identity struct {
	ended chan struct{}

	mu    sync.Mutex // guards the fields below
	want  string     // empty if it is not known yet
	other *OtherClusterError
}

// New returns the identity of the cluster with this ID. If the ID is empty, the first one that is seen counts.
func New(clusterID string) *Identity {
	return &Identity{ended: make(chan struct{}), want: clusterID}
}

// ClusterID returns the ID of the cluster, or an empty string if it is not known yet.
func (i *Identity) ClusterID() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.want
}

// Other returns an error once another cluster has answered, and nil before.
func (i *Identity) Other() *OtherClusterError {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.other
}

// Ended returns a channel that is closed once another cluster has answered.
func (i *Identity) Ended() <-chan struct{} { return i.ended }

// Check compares the ID that the cluster tells. It returns an *OtherClusterError, also ever after another cluster has
// answered once, or an *UnknownError. A text that cannot be an ID counts as none.
func (i *Identity) Check(seen string) error {
	if len(validation.IsValidLabelValue(seen)) > 0 {
		seen = ""
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.other != nil:
	case i.want == "":
		i.want = seen
		return nil
	case seen == "":
		return &UnknownError{Want: i.want}
	case seen == i.want:
		return nil
	default:
		i.other = &OtherClusterError{Want: i.want, Seen: seen}
		close(i.ended)
	}
	return i.other
}

// Confirm asks the cluster for its ID, and checks it. It asks nothing while it is not known which one is right.
func (i *Identity) Confirm(ctx context.Context, reader client.Reader) error {
	if i.ClusterID() == "" {
		return nil
	}
	summary := &v1alpha1.ClusterSummary{}
	if err := reader.Get(ctx, types.NamespacedName{Name: v1alpha1.ClusterSummaryName}, summary); err != nil {
		return fmt.Errorf("asking for the cluster ID: %w", err)
	}
	return i.Check(summary.Status.ClusterID)
}

// Explain returns the reason for an error of a request to the cluster: that another cluster has answered, or else the
// error itself.
func (i *Identity) Explain(err error) error {
	if other := i.Other(); other != nil && err != nil {
		return other
	}
	return err
}
