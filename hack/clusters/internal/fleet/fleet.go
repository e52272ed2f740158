package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/build"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cgroup"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/progress"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

// maxNameLength is the length of the longest cluster name that fits into the name of a network link.
const maxNameLength = 12

// Fleet is the set of clusters of one checkout.
type Fleet struct {
	// Checkout is the absolute path of the checkout.
	Checkout string
	Registry *registry.Registry
	Progress *progress.Printer
	// Now returns the current time.
	Now func() time.Time
}

// Local returns a path in .local, the folder of the checkout that git ignores.
func (f Fleet) Local(parts ...string) string {
	return filepath.Join(append([]string{f.Checkout, ".local"}, parts...)...)
}

// Kubeconfig returns the path of the kubeconfig file, which has a context for each cluster.
func (f Fleet) Kubeconfig() string { return f.Local("kubeconfig") }

// Lock waits until no other command changes the checkout's clusters. The returned function releases the lock.
func (f Fleet) Lock() (func(), error) {
	return registry.Lock(f.Local("clusters.lock"))
}

// Build builds programs into .local/bin, while no other command builds there.
func (f Fleet) Build(ctx context.Context, programs ...build.Target) error {
	return f.buildInto(ctx, f.Local("bin"), "", programs)
}

// BuildKubernetes builds the components of another minor version of Kubernetes into a folder of .local/bin, while no
// other command builds there.
func (f Fleet) BuildKubernetes(ctx context.Context, minor string) error {
	programs, err := build.Kubernetes(f.Checkout, minor)
	if err != nil {
		return err
	}
	return f.buildInto(ctx, cluster.KubernetesBin(f.Local("bin"), minor), " of Kubernetes "+minor, programs)
}

// buildContainerd2 builds containerd 2 into a folder of .local/bin, while no other command builds there.
func (f Fleet) buildContainerd2(ctx context.Context) error {
	programs, err := build.Containerd(f.Checkout)
	if err != nil {
		return err
	}
	return f.buildInto(ctx, cluster.Containerd2Bin(f.Local("bin")), " 2", programs)
}

func (f Fleet) buildInto(ctx context.Context, folder, suffix string, programs []build.Target) error {
	unlock, err := registry.Lock(f.Local("build.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	step := func(what string, run func() error) error { return f.Progress.Step(what+suffix, run) }
	return build.Builder{Out: folder, Step: step}.Build(ctx, programs...)
}

// Clusters returns the named clusters, or all clusters of the checkout, in the order of their addresses.
func (f Fleet) Clusters(names ...string) ([]*cluster.Cluster, error) {
	entry, err := f.Registry.Find(f.Checkout)
	if err != nil {
		return nil, err
	}
	if entry == nil {
		entry = &registry.Entry{}
	}
	for _, name := range names {
		if _, found := entry.Clusters[name]; !found {
			return nil, fmt.Errorf("there is no cluster %q here; `clusters status` lists the clusters", name)
		}
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(entry.Clusters))
	}
	slices.SortFunc(names, func(a, b string) int { return entry.Clusters[a] - entry.Clusters[b] })
	options, err := f.options(entry)
	if err != nil {
		return nil, err
	}
	var clusters []*cluster.Cluster
	for _, name := range names {
		clusters = append(clusters, cluster.New(name, options))
	}
	return clusters, nil
}

func (f Fleet) options(entry *registry.Entry) (cluster.Options, error) {
	hierarchies, err := cgroup.Mounted()
	return cluster.Options{
		Entry: entry, State: f.Local("clusters"), Bin: f.Local("bin"), Images: f.Local("images"),
		Hierarchies: hierarchies, Now: f.Now,
	}, err
}

// CheckNames returns an error if one of the names is not allowed for a cluster.
func CheckNames(names []string) error {
	valid := regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	for _, name := range names {
		reserved := name == "hub" || name == "machine" || strings.HasPrefix(name, "br0")
		if reserved || !valid.MatchString(name) || len(name) > maxNameLength {
			return fmt.Errorf("a cluster cannot be called %q: use at most %d lower-case letters, digits and hyphens, "+
				"and a letter first", name, maxNameLength)
		}
	}
	return nil
}

// Each calls do for the named clusters, or all clusters of the checkout, at the same time.
func (f Fleet) Each(ctx context.Context, names []string, do func(context.Context, *cluster.Cluster) error) error {
	clusters, err := f.Clusters(names...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return each(ctx, clusters, do)
}

// each calls do for each cluster at the same time, and joins the errors.
func each(ctx context.Context, clusters []*cluster.Cluster, do func(context.Context, *cluster.Cluster) error) error {
	errs := make([]error, len(clusters))
	var running sync.WaitGroup
	for i, c := range clusters {
		running.Go(func() { errs[i] = do(ctx, c) })
	}
	running.Wait()
	return errors.Join(errs...)
}

func (f Fleet) writeKubeconfig() error {
	clusters, err := f.Clusters()
	if err != nil {
		return err
	}
	started := slices.DeleteFunc(clusters, func(c *cluster.Cluster) bool {
		_, err := os.Stat(f.Local("clusters", c.Name(), "pki", "admin.crt"))
		return err != nil
	})
	return cluster.WriteKubeconfig(f.Kubeconfig(), started)
}
