package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/build"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/image"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/network"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

const (
	startTimeout = 3 * time.Minute
	// inotifyInstances is the limit that many nodes need. A handful of nodes exhausts the usual limit of a machine.
	inotifyInstances = 8192
	inotifyFile      = "/proc/sys/fs/inotify/max_user_instances"
)

// Change returns the new settings of a cluster, given its name and its present settings.
type Change func(name string, present cluster.Spec) cluster.Spec

// Up makes the named clusters run, whatever their state. It does not touch the checkout's other clusters.
func (f Fleet) Up(ctx context.Context, names []string, change Change) error {
	if err := f.buildAll(ctx); err != nil {
		return err
	}
	if err := f.claim(ctx, names); err != nil {
		return err
	}
	if err := raiseInotifyLimit(f.Progress.Line); err != nil {
		return err
	}
	clusters, err := f.Clusters(names...)
	if err != nil {
		return err
	}
	if err := f.buildVersions(ctx, clusters, change); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = f.Progress.Step("starting "+strings.Join(names, " and "), func() error {
		return each(ctx, clusters, func(ctx context.Context, c *cluster.Cluster) error {
			spec, err := c.Spec()
			if err != nil {
				return err
			}
			return c.Start(ctx, change(c.Name(), spec))
		})
	})
	if err != nil {
		return err
	}
	return f.writeKubeconfig()
}

// claim records the clusters before other code makes anything for them, and makes the resources that they share. It
// removes the state that an earlier cluster of the same name left in the checkout.
func (f Fleet) claim(ctx context.Context, names []string) error {
	unlock, err := f.Registry.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.sweep(ctx); err != nil {
		return err
	}
	entry, err := f.Registry.Claim(f.Checkout, network.InUse)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, found := entry.Clusters[name]; !found {
			if err := os.RemoveAll(f.Local("clusters", name)); err != nil {
				return fmt.Errorf("removing the old state of cluster %q: %w", name, err)
			}
		}
		if err := entry.Add(name); err != nil {
			return err
		}
	}
	if err := namespace.Private(registry.DefaultDir); err != nil {
		return err
	}
	return network.New(entry.Plan).EnsureHub(ctx)
}

// buildAll builds all programs, and the archives of the images that every node holds.
func (f Fleet) buildAll(ctx context.Context) error {
	programs, err := build.Programs(f.Checkout)
	if err != nil {
		return err
	}
	if err := f.Build(ctx, programs...); err != nil {
		return err
	}
	images := build.Builder{Out: f.Local("images"), Step: f.Progress.Step}
	if err := images.Build(ctx, build.Images(f.Checkout)...); err != nil {
		return err
	}
	for _, made := range []image.Image{
		{Reference: "localhost/pause:dev", Program: images.Path("pause"), Path: "/pause", User: "65532:65532"},
		{Reference: "localhost/whoami:dev", Program: images.Path("whoami"), Path: "/whoami", User: "65532:65532"},
	} {
		if err := made.WriteFile(f.Local("images", filepath.Base(made.Program)+".tar")); err != nil {
			return err
		}
	}
	return nil
}

// buildVersions builds the other versions of Kubernetes and of containerd in which the clusters are to run.
func (f Fleet) buildVersions(ctx context.Context, clusters []*cluster.Cluster, change Change) error {
	built := map[string]bool{}
	for _, c := range clusters {
		spec, err := c.Spec()
		if err != nil {
			return err
		}
		spec = change(c.Name(), spec)
		if spec.Containerd2 {
			if err := f.buildContainerd2(ctx); err != nil {
				return err
			}
		}
		minor := spec.Kubernetes
		if minor == "" || built[minor] {
			continue
		}
		built[minor] = true
		if err := f.BuildKubernetes(ctx, minor); err != nil {
			return err
		}
	}
	return nil
}

func raiseInotifyLimit(say func(format string, args ...any)) error {
	content, err := os.ReadFile(inotifyFile)
	if err != nil {
		return fmt.Errorf("reading the limit of inotify instances: %w", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return fmt.Errorf("reading the limit of inotify instances: %w", err)
	}
	if limit >= inotifyInstances {
		return nil
	}
	say("raising %s from %d to %d, because kubelets watch many files", inotifyFile, limit, inotifyInstances)
	if err := os.WriteFile(inotifyFile, []byte(strconv.Itoa(inotifyInstances)), 0); err != nil {
		return fmt.Errorf("raising the limit of inotify instances: %w", err)
	}
	return nil
}
