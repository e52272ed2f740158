package apiserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// patience is far longer than anything here takes on an idle machine, so that only what never happens fails a test.
	patience = time.Minute
	interval = 20 * time.Millisecond
)

// Eventually calls check until it returns nil, and fails the test with its last error if that takes too long. The context
// given to check ends with the test or when time is up.
func Eventually(t testing.TB, check func(ctx context.Context) error) {
	t.Helper()
	if err := eventually(t.Context(), patience, check); err != nil {
		t.Fatal(err)
	}
}

// Namespace creates a namespace of its own for a test, with the labels given, and returns its name.
// It is not deleted afterwards: nothing empties namespaces here, and the control plane goes anyway.
func (c *Cluster) Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	if err := c.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("creating a namespace in %q: %v", c.Name, err)
	}
	return namespace.Name
}

func eventually(ctx context.Context, limit time.Duration, check func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, interval, limit, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil {
			last = err // An error of our own cancellation would hide the one that matters.
		}
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("still not so after %s: %w", limit, last)
	}
	return nil
}
