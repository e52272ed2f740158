package scheduling

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// swallowing is the same target behind a network that swallows requests; its cache stays as it was.
func swallowing(t *testing.T, target *engage.Target) *engage.Target {
	t.Helper()
	withWatch, err := client.NewWithWatch(target.Config, client.Options{Scheme: target.Client.Scheme()})
	must(t, err)
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	swallower := interceptor.NewClient(withWatch, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return hang(ctx)
		},
		Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			return hang(ctx)
		},
		Delete: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.DeleteOption) error {
			return hang(ctx)
		},
	})
	return &engage.Target{
		Key: target.Key, NodeName: target.NodeName, Hash: target.Hash, Config: target.Config,
		Client: swallower, APIReader: swallower, Cache: target.Cache,
	}
}
