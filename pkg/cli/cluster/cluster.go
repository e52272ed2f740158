package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	_ "golang.org/x/crypto/x509roots/fallback" // trusts public authorities on machines that have none
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Cluster is the cluster of a context of a kubeconfig.
type Cluster struct {
	// Context is the name of the context.
	Context string
	// Namespace is the context's namespace, "default" if it has none.
	Namespace string
	// Config is the configuration of clients.
	Config *rest.Config
	// Client reads, writes and watches without a cache. Its scheme has Kubernetes' kinds and ours.
	Client client.WithWatch
}

// Kubeconfig is the kubeconfig of the flag --kubeconfig, or else the kubeconfig that kubectl uses.
type Kubeconfig struct {
	path string
}

// Flags returns the flags of a kubeconfig for a command.
func (k *Kubeconfig) Flags() *genericclioptions.ConfigFlags {
	return &genericclioptions.ConfigFlags{KubeConfig: &k.path}
}

// Contexts returns the sorted names of the contexts.
func (k *Kubeconfig) Contexts() ([]string, error) {
	raw, err := k.Flags().ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return slices.Sorted(maps.Keys(raw.Contexts)), nil
}

// Open returns the cluster of the context, by default of the current one. It does not connect yet. Messages name the
// flag that chooses the context.
func (k *Kubeconfig) Open(name, flag string) (*Cluster, error) {
	flags := k.Flags()
	raw, err := flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if name == "" {
		name = raw.CurrentContext
	}
	if err := checkContext(raw, name, flag); err != nil {
		return nil, err
	}
	flags.Context = ptr.To(name)
	loader := flags.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading context %q of the kubeconfig: %w", name, err)
	}
	config.QPS = -1
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading context %q of the kubeconfig: %w", name, err)
	}
	c, err := newClient(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for context %q: %w", name, err)
	}
	return &Cluster{Context: name, Namespace: namespace, Config: config, Client: c}, nil
}

func checkContext(raw clientcmdapi.Config, name, flag string) error {
	if len(raw.Contexts) == 0 {
		return errors.New("the kubeconfig has no contexts: " +
			"name another one with --kubeconfig or the environment variable KUBECONFIG")
	}
	contexts := strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
	if name == "" {
		return fmt.Errorf("the kubeconfig has no current context: choose one with --%s: %s", flag, contexts)
	}
	if _, ok := raw.Contexts[name]; !ok {
		return fmt.Errorf("the kubeconfig has no context %q for --%s; it has: %s", name, flag, contexts)
	}
	return nil
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// CheckInstalled returns an error with advice if the cluster does not answer or lacks our kinds.
func (c *Cluster) CheckInstalled(ctx context.Context) error {
	// The read comes first: it fails if the cluster does not answer or does not accept the credentials.
	err := c.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &corev1.Namespace{})
	if err != nil {
		return fmt.Errorf("asking the cluster of context %q: %w", c.Context, err)
	}
	gk := schema.GroupKind{Group: v1alpha1.GroupName, Kind: "ClusterTarget"}
	_, err = c.Client.RESTMapper().RESTMapping(gk, v1alpha1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("multicluster-scheduler is not installed in the cluster of context %q; "+
			"install its chart there first:\n  helm --kube-context %s install multicluster-scheduler "+
			"charts/multicluster-scheduler --namespace admiralty --create-namespace", c.Context, c.Context)
	}
	if err != nil {
		return fmt.Errorf("asking the cluster of context %q which kinds it has: %w", c.Context, err)
	}
	return nil
}

// GetIfExists reads an object. If the object does not exist, it returns nil, and the UID stays empty.
func (c *Cluster) GetIfExists(ctx context.Context, object client.Object) error {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting %s in context %q: %w", c.Describe(object), c.Context, err)
	}
	return nil
}

// Apply writes the object by server-side apply. Fields that an earlier Apply set and this one leaves out are removed.
func (c *Cluster) Apply(ctx context.Context, object client.Object) error {
	gvk, err := c.Client.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	config, err := applyConfiguration(object)
	if err != nil {
		return err
	}
	if err := c.Client.Apply(ctx, config, client.FieldOwner(FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying %s in context %q: %w", c.Describe(object), c.Context, err)
	}
	return nil
}
