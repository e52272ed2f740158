package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// startTimeout is generous, because several control planes start at once on a busy machine with two cores.
const startTimeout = 2 * time.Minute

// Cluster is one running control plane. Its fields are for reading.
type Cluster struct {
	// Name is for messages. The control plane does not know it.
	Name string
	// Config logs in as a cluster administrator, without client-side rate limits.
	Config *rest.Config
	// Client has the same rights. It reads and writes directly, without a cache.
	Client client.Client

	environment *envtest.Environment
	data        string // the directory of everything that the control plane stores
}

// Start starts one control plane for each name, all at once, with the project's custom resources. They stop when the
// test, or the suite, ends.
func Start(t T, names ...string) []*Cluster {
	t.Helper()
	return start(t, kind{customResources: true}, names)
}

// StartWithout starts a control plane whose API server does not serve a version of a group.
func StartWithout(t T, name string, version schema.GroupVersion) *Cluster {
	t.Helper()
	return start(t, kind{customResources: true, without: version.String()}, []string{name})[0]
}

// StartBare starts a control plane without the project's custom resources.
func StartBare(t T, name string) *Cluster {
	t.Helper()
	return start(t, kind{}, []string{name})[0]
}

// kind of control plane.
type kind struct {
	customResources bool   // those of the project
	without         string // a version of a group that the API server does not serve, or empty
}

func start(t T, of kind, names []string) []*Cluster {
	t.Helper()
	clusters := make([]*Cluster, len(names))
	var group errgroup.Group
	for i, name := range names {
		group.Go(func() (err error) {
			clusters[i], err = startOne(name, of)
			return err
		})
	}
	err := group.Wait()
	for _, cluster := range clusters {
		if cluster != nil {
			t.Cleanup(func() {
				if err := cluster.Stop(); err != nil {
					t.Errorf("%v", err)
				}
			})
		}
	}
	Must(t, err)
	return clusters
}

// startOne returns when the control plane serves. If it fails, nothing keeps running.
func startOne(name string, of kind) (*Cluster, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	environment, err := prepare(root, of)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{Name: name, environment: environment}
	if cluster.data, err = store(environment); err != nil {
		return nil, err
	}
	if cluster.Config, err = environment.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting control plane %q: %w", name, err), cluster.Stop())
	}
	cluster.Config.QPS = -1
	if cluster.Client, err = client.New(cluster.Config, client.Options{Scheme: environment.Scheme}); err != nil {
		return nil, errors.Join(fmt.Errorf("making a client of %q: %w", name, err), cluster.Stop())
	}
	return cluster, nil
}

// Stop stops the control plane and removes its data. Clients get connection errors from then on, as from a cluster
// that died. Stopping twice is harmless.
func (c *Cluster) Stop() error {
	if c.environment == nil {
		return nil
	}
	environment := c.environment
	c.environment = nil
	if err := errors.Join(environment.Stop(), os.RemoveAll(c.data)); err != nil {
		return fmt.Errorf("stopping control plane %q: %w", c.Name, err)
	}
	return nil
}

// Scheme returns a scheme with the kinds of Kubernetes and of this project.
func Scheme() *kruntime.Scheme {
	s := kruntime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

func prepare(root string, of kind) (*envtest.Environment, error) {
	bin := filepath.Join(root, ".local", "bin")
	for _, program := range []string{"etcd", "kube-apiserver"} {
		if err := built(filepath.Join(bin, program)); err != nil {
			return nil, err
		}
	}
	environment := &envtest.Environment{
		Scheme:                   Scheme(),
		BinaryAssetsDirectory:    bin,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	if of.customResources {
		environment.CRDDirectoryPaths = []string{filepath.Join(root, "charts", Release, "crds")}
		environment.ErrorIfCRDPathMissing = true
	}
	// The paths are explicit, so that no environment variable selects other versions. The scripts start the programs so
	// that they end with the tests.
	mortal := filepath.Join(root, "test", "integration", "env", "mortal")
	environment.ControlPlane.GetAPIServer().Path = filepath.Join(mortal, "kube-apiserver")
	if of.without != "" {
		environment.ControlPlane.GetAPIServer().Configure().Append("runtime-config", of.without+"=false")
	}
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(mortal, "etcd")}
	return environment, nil
}

// built returns an error that names the remedy if a program is missing.
func built(program string) error {
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%s is missing: `make test-integration` builds it: %w", filepath.Base(program), err)
	}
	return nil
}

// repository returns the root of the checkout that this source file belongs to.
func repository() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); !ok || err != nil {
		return "", fmt.Errorf("finding the repository from %q: build tests in the checkout, without -trimpath", file)
	}
	return root, nil
}
