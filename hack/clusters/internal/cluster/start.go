package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/wait"
)

const (
	// stopGrace is the time in which a component can close its listeners. Open watches never end by themselves.
	stopGrace    = 2 * time.Second
	logTailLines = 8
)

// Start starts the components that do not run or that run with another configuration, and heals a partition. It returns
// when the API server and the node are ready and the node holds the images.
func (c *Cluster) Start(ctx context.Context, spec Spec) error {
	if err := c.prepare(ctx, spec); err != nil {
		return err
	}
	files, err := c.configure(spec)
	if err != nil {
		return err
	}
	if err := c.saveSpec(spec); err != nil {
		return err
	}
	if err := c.ensure(ctx, c.foundation(spec), files); err != nil {
		return err
	}
	if err := c.loadBuiltIn(ctx); err != nil {
		return err
	}
	if err := c.waitForAPIServer(ctx); err != nil {
		return err
	}
	if err := c.ensure(ctx, c.rest(spec), files); err != nil {
		return err
	}
	if err := c.waitForNode(ctx); err != nil {
		return err
	}
	if err := c.ensureDNS(ctx); err != nil {
		return err
	}
	return c.ensureFakeNodes(ctx, spec.FakeNodes)
}

// prepare makes the surroundings of the processes: folders, certificates, control groups and namespaces.
func (c *Cluster) prepare(ctx context.Context, spec Spec) error {
	if err := c.Network().Ensure(ctx, c.name, c.index); err != nil {
		return err
	}
	if spec.DualStack {
		if err := c.Network().EnsureIPv6(ctx, c.name, c.index); err != nil {
			return err
		}
	}
	if err := c.Network().Heal(ctx, c.name); err != nil {
		return err
	}
	for _, dir := range []string{c.run, filepath.Join(c.state, "logs"), filepath.Join(c.state, "volume-plugins")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
	}
	if err := c.Hierarchies.At(c.componentsCgroup()).Create(); err != nil {
		return err
	}
	if !namespace.MountPinned(c.mountPin()) {
		if err := namespace.CreateMount(c.mountPin(), c.binds()); err != nil {
			return err
		}
	}
	return c.certify()
}

// binds maps the folders that containerd and the kubelet require to the folders of the cluster's state that replace
// them.
func (c *Cluster) binds() map[string]string {
	return map[string]string{
		"/run/containerd":     filepath.Join(c.state, "run", "containerd"),
		"/run/netns":          filepath.Join(c.state, "run", "netns"),
		"/run/cdi":            filepath.Join(c.state, "run", "cdi"), // devices that drivers describe
		"/var/lib/kubelet":    filepath.Join(c.state, "kubelet"),
		"/var/log/containers": filepath.Join(c.state, "container-logs"),
	}
}

// ensure starts the components that do not run or that run with another configuration.
func (c *Cluster) ensure(ctx context.Context, components []component, files map[string]string) error {
	for _, component := range components {
		command := c.command(component, files)
		record, err := c.record(component.name)
		if err != nil {
			return err
		}
		if record.Alive() && record.Command == command.Fingerprint() {
			continue
		}
		if err := record.Stop(ctx, stopGrace); err != nil {
			return fmt.Errorf("stopping %s of cluster %q: %w", component.name, c.name, err)
		}
		if err := process.Start(ctx, command); err != nil {
			return fmt.Errorf("starting %s of cluster %q: %w", component.name, c.name, err)
		}
	}
	return nil
}

// waitForAPIServer waits until the API server serves and has finished its bootstrap.
func (c *Cluster) waitForAPIServer(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return c.waitFor(ctx, "the API server is ready", func(ctx context.Context) bool {
		return client.Get(ctx, "/readyz", nil) == nil
	}, etcd, apiServer)
}

// waitForNode waits until the node is ready and pods can be created in the namespace default. It also asks the kubelet,
// because the status of a node outlives the kubelet for a while.
func (c *Cluster) waitForNode(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return c.waitFor(ctx, "the node is ready", func(ctx context.Context) bool {
		node, err := c.node(ctx, client)
		return err == nil && node.ready() && client.Get(ctx, nodesPath+"/"+c.Node()+"/proxy/healthz", nil) == nil &&
			client.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil) == nil
	}, etcd, apiServer, controllerManager, scheduler, containerd, kubelet, kubeProxy, coreDNS)
}

// waitFor waits until done returns true. It returns an error if one of the components ends meanwhile.
func (c *Cluster) waitFor(
	ctx context.Context, what string, done func(context.Context) bool, components ...string,
) error {
	return wait.Until(ctx, fmt.Sprintf("%s (cluster %q; see %s)", what, c.name, filepath.Join(c.state, "logs")),
		func(ctx context.Context) (bool, error) {
			for _, name := range components {
				record, err := c.record(name)
				if err != nil {
					return false, err
				}
				if !record.Alive() {
					return false, fmt.Errorf("%s of cluster %q has ended; the last lines of its log %s:\n%s",
						name, c.name, c.logFile(name), c.logTail(name))
				}
			}
			return done(ctx), nil
		})
}

func (c *Cluster) logTail(component string) string {
	content, err := os.ReadFile(c.logFile(component))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
}
