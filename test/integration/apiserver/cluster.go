package apiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is generous: on a busy machine with two cores several control planes start at once.
const startTimeout = 2 * time.Minute

// Options say what a control plane has beyond Kubernetes itself. The zero value is a control plane with the project's
// custom resources.
type Options struct {
	// Scheme is that of Cluster.Client, by default client-go's.
	Scheme *kruntime.Scheme
	// CRDs are files or folders of CustomResourceDefinitions, by default the chart's.
	CRDs []string
	// Webhooks are installed in the control plane; it reaches them on the loopback address and port that envtest fills in.
	Webhooks envtest.WebhookInstallOptions
}

// Cluster is one running control plane. Its fields are for reading.
type Cluster struct {
	// Name is for messages; clusters know nothing of it.
	Name string
	// Config and Kubeconfig both log in as a cluster administrator, without client-side rate limits.
	Config     *rest.Config
	Kubeconfig []byte
	// Client reads and writes directly, without a cache.
	Client client.Client
	// Webhooks says where to serve the webhooks asked for in Options.
	Webhooks envtest.WebhookInstallOptions

	environment *envtest.Environment
}

// Start starts one control plane for each name, all at once, and stops them when the test ends. It fails the test
// if one does not start.
func Start(t testing.TB, options Options, names ...string) []*Cluster {
	t.Helper()
	clusters := make([]*Cluster, len(names))
	var group errgroup.Group
	for i, name := range names {
		group.Go(func() error {
			cluster, err := New(name, options)
			clusters[i] = cluster
			return err
		})
	}
	err := group.Wait()
	t.Cleanup(func() {
		for _, cluster := range clusters {
			if cluster == nil {
				continue
			}
			if err := cluster.Stop(); err != nil {
				t.Errorf("stopping: %v", err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return clusters
}

// New starts a control plane and returns when it serves the custom resources. The caller must Stop it; if New fails,
// nothing is left running.
func New(name string, options Options) (*Cluster, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	environment, err := prepare(root, options)
	if err != nil {
		return nil, err
	}
	config, err := environment.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting control plane %q: %w", name, err), environment.Stop())
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: environment.Scheme})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a client of %q: %w", name, err), environment.Stop())
	}
	return &Cluster{
		Name:        name,
		Config:      config,
		Kubeconfig:  environment.KubeConfig,
		Client:      c,
		Webhooks:    environment.WebhookInstallOptions,
		environment: environment,
	}, nil
}

// Stop stops the control plane and removes its data. Clients get connection errors from then on, as from a cluster that
// died. Stopping twice is harmless.
func (c *Cluster) Stop() error {
	if c.environment == nil {
		return nil
	}
	environment := c.environment
	c.environment = nil
	if err := environment.Stop(); err != nil {
		return fmt.Errorf("stopping control plane %q: %w", c.Name, err)
	}
	return nil
}

// User returns the configuration of a client that logs in as name, a member of groups, with the rights that RBAC gives them.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	user, err := c.environment.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{QPS: -1})
	if err != nil {
		return nil, fmt.Errorf("adding user %q to %q: %w", name, c.Name, err)
	}
	return user.Config(), nil
}

func prepare(root string, options Options) (*envtest.Environment, error) {
	bin := filepath.Join(root, ".local", "bin")
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return nil, fmt.Errorf("integration tests run a real %s and %s is missing: run `make test-integration`, which builds it",
				program, filepath.Join(bin, program))
		}
	}
	environment := &envtest.Environment{
		Scheme:                   options.Scheme,
		CRDDirectoryPaths:        options.CRDs,
		ErrorIfCRDPathMissing:    true,
		BinaryAssetsDirectory:    bin,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
		WebhookInstallOptions:    options.Webhooks,
	}
	if environment.Scheme == nil {
		environment.Scheme = scheme.Scheme
	}
	if environment.CRDDirectoryPaths == nil {
		environment.CRDDirectoryPaths = []string{filepath.Join(root, "charts", "multicluster-scheduler", "crds")}
	}
	// Named outright, so that an environment variable cannot put other versions in their place.
	environment.ControlPlane.GetAPIServer().Path = filepath.Join(bin, "kube-apiserver")
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(bin, "etcd")}
	return environment, nil
}

// repository returns the root of the checkout that this source file belongs to.
func repository() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); !ok || err != nil {
		return "", fmt.Errorf("finding the repository from %q: build integration tests in the checkout and without -trimpath", file)
	}
	return root, nil
}
