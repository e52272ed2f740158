package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cgroup"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/network"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

const destroyTimeout = time.Minute

// Down removes the named clusters, or all clusters of the checkout, with their state. Missing clusters are no error.
func (f Fleet) Down(ctx context.Context, names []string) error {
	unlock, err := f.Registry.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.sweep(ctx); err != nil {
		return err
	}
	entry, err := f.Registry.Find(f.Checkout)
	if err != nil || entry == nil {
		return err
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(entry.Clusters))
	}
	names = slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool {
		_, found := entry.Clusters[name]
		return !found
	})
	if len(names) == 0 && len(entry.Clusters) > 0 {
		return nil
	}
	err = f.Progress.Step("removing "+strings.Join(names, " and "), func() error {
		return f.destroy(ctx, entry, names)
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := os.RemoveAll(f.Local("clusters", name)); err != nil {
			return fmt.Errorf("removing the state of cluster %q: %w", name, err)
		}
	}
	if len(entry.Clusters) > 0 {
		return f.writeKubeconfig()
	}
	return errors.Join(os.RemoveAll(f.Local("clusters")), f.writeKubeconfig())
}

// sweep removes the clusters of vanished checkouts from the machine. A checkout that was deleted and made again counts
// as vanished, too. The caller holds the lock of the registry.
func (f Fleet) sweep(ctx context.Context) error {
	vanished, err := f.Registry.Vanished()
	if err != nil {
		return err
	}
	for _, entry := range vanished {
		names := slices.Sorted(maps.Keys(entry.Clusters))
		what := fmt.Sprintf("removing %s of the vanished checkout %s", strings.Join(names, " "), entry.Checkout)
		if err := f.Progress.Step(what, func() error { return f.destroy(ctx, entry, names) }); err != nil {
			return err
		}
	}
	return nil
}

// destroy removes clusters from the machine, and with the last cluster the resources that all of them share. The caller
// holds the lock of the registry.
func (f Fleet) destroy(ctx context.Context, entry *registry.Entry, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, destroyTimeout)
	defer cancel()
	hierarchies, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	errs := make([]error, len(names))
	var running sync.WaitGroup
	for i, name := range names {
		running.Go(func() { errs[i] = cluster.Destroy(ctx, entry, name, hierarchies) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range names {
		if err := entry.Remove(name); err != nil {
			return err
		}
	}
	if len(entry.Clusters) > 0 {
		return nil
	}
	if err := network.New(entry.Plan).RemoveHub(ctx); err != nil {
		return err
	}
	if err := hierarchies.At(entry.Cgroup()).Remove(ctx); err != nil {
		return err
	}
	if err := f.Registry.Release(entry); err != nil {
		return err
	}
	return f.unprivate()
}

// unprivate makes the registry's folder an ordinary folder again. Only pinned namespaces need it to be a private mount.
func (f Fleet) unprivate() error {
	entries, err := f.Registry.Entries()
	if err != nil || len(entries) > 0 {
		return err
	}
	return namespace.Unprivate(registry.DefaultDir)
}
