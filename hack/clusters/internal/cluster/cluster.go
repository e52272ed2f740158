package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cgroup"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/kube"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/network"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/pki"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

const apiServerPort = 6443

// Options are the properties that all clusters of a checkout share.
type Options struct {
	// Entry is the checkout's record.
	Entry *registry.Entry
	// State is the folder of the clusters' state, Bin the folder of the programs, Images that of the image archives.
	State, Bin, Images string
	// Hierarchies are the machine's control groups.
	Hierarchies cgroup.Hierarchies
	// Now returns the current time.
	Now func() time.Time
}

// Cluster is one cluster of a checkout.
type Cluster struct {
	Options
	name  string
	index int
	state string
	run   string
}

// New returns the cluster of the given name, which is in the checkout's record. The cluster need not run.
func New(name string, options Options) *Cluster {
	return &Cluster{
		Options: options,
		name:    name,
		index:   options.Entry.Clusters[name],
		state:   filepath.Join(options.State, name),
		run:     options.Entry.Dir(name),
	}
}

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.name }

// Node returns the name of the cluster's real node.
func (c *Cluster) Node() string { return c.name + "-node" }

// Address returns the address of the node, which is also that of the API server.
func (c *Cluster) Address() netip.Addr { return c.Entry.Node(c.index) }

// Server returns the URL of the API server.
func (c *Cluster) Server() string { return fmt.Sprintf("https://%s:%d", c.Address(), apiServerPort) }

// Network returns the network of the checkout's clusters.
func (c *Cluster) Network() network.Network { return network.New(c.Entry.Plan) }

// Isolate cuts pods off from the API server, until the network is healed.
func (c *Cluster) Isolate(ctx context.Context, pods []netip.Addr) error {
	return c.Network().Isolate(ctx, c.name, apiServerPort, pods)
}

// Client returns a client of the API server with all rights.
func (c *Cluster) Client() (*kube.Client, error) {
	store := c.store()
	return kube.NewClient(c.Server(), kube.Credentials{
		Authority: store.Cert(authority), Cert: store.Cert(adminUser), Key: store.Key(adminUser),
	})
}

func (c *Cluster) store() pki.Store {
	return pki.Store{Dir: filepath.Join(c.state, "pki"), Now: c.Now()}
}

func (c *Cluster) cgroup() string { return c.Entry.Cgroup() + "/" + c.name }

// componentsCgroup returns the control group of the components. They have a group of their own because its parent,
// which also holds the groups of pods, must hold no process.
func (c *Cluster) componentsCgroup() string { return c.cgroup() + "/components" }

func (c *Cluster) mountPin() string { return filepath.Join(c.run, "mounts") }

func (c *Cluster) logFile(component string) string {
	return filepath.Join(c.state, "logs", component+".log")
}

func (c *Cluster) recordFile(component string) string {
	return filepath.Join(c.run, component+".json")
}

func (c *Cluster) record(component string) (process.Record, error) {
	return process.Read(c.recordFile(component))
}

// runOnNode runs a program in containerd's namespaces, and returns its output.
func (c *Cluster) runOnNode(ctx context.Context, args ...string) (string, error) {
	return process.Run(ctx, process.Place{Mounts: c.mountPin(), Net: c.Network().Place(c.name)}, "", args...)
}
