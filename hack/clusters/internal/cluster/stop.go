package cluster

import (
	"context"
	"fmt"
	"os"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cgroup"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/network"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

// StopAPIServer ends the API server. The other components keep running.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.stop(ctx, apiServer)
}

// StartAPIServer starts the API server, unless it runs, and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	spec, err := c.Spec()
	if err != nil {
		return err
	}
	if err := c.ensure(ctx, []component{{name: apiServer, args: c.apiServerArgs(spec)}}, nil); err != nil {
		return err
	}
	return c.waitForAPIServer(ctx)
}

func (c *Cluster) stop(ctx context.Context, component string) error {
	record, err := c.record(component)
	if err != nil {
		return err
	}
	if err := record.Stop(ctx, stopGrace); err != nil {
		return fmt.Errorf("stopping %s of cluster %q: %w", component, c.name, err)
	}
	if err := os.RemoveAll(c.recordFile(component)); err != nil {
		return fmt.Errorf("removing the record of %s of cluster %q: %w", component, c.name, err)
	}
	return nil
}

// Destroy kills all processes of a cluster, its pods included, and removes its control groups, its namespaces and their
// mounts and links from the machine. It reads nothing in the checkout, which may have vanished.
func Destroy(ctx context.Context, entry *registry.Entry, name string, hierarchies cgroup.Hierarchies) error {
	if err := hierarchies.At(entry.Cgroup() + "/" + name).Remove(ctx); err != nil {
		return err
	}
	c := New(name, Options{Entry: entry})
	if err := namespace.UnpinMount(c.mountPin()); err != nil {
		return err
	}
	return network.New(entry.Plan).Remove(ctx, name)
}
