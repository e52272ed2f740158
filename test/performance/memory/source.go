package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	installedIn = "admiralty"
	writers     = 20 // targets whose proxies are created at the same time
)

// sourceCluster is a real API server with etcd, without controllers, nodes and kubelets.
type sourceCluster struct {
	client      client.Client
	kubeconfig  []byte
	environment *envtest.Environment
}

func startSource(o options) (*sourceCluster, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	environment := &envtest.Environment{
		Scheme: scheme, CRDDirectoryPaths: []string{o.crds}, ErrorIfCRDPathMissing: true, BinaryAssetsDirectory: o.bin,
	}
	environment.ControlPlane.GetAPIServer().Path = filepath.Join(o.bin, "kube-apiserver")
	environment.ControlPlane.GetAPIServer().Configure().Set("service-cluster-ip-range", "10.96.0.0/16")
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(o.bin, "etcd")}
	config, err := environment.Start()
	if err != nil {
		err = fmt.Errorf("starting the source's API server from %s: %w", o.bin, err)
		return nil, errors.Join(err, environment.Stop())
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, errors.Join(err, environment.Stop())
	}
	return &sourceCluster{client: c, kubeconfig: environment.KubeConfig, environment: environment}, nil
}

func (s *sourceCluster) stop() error { return s.environment.Stop() }

// fill creates the proxies in the source, and writes each target's content to a file in the folder.
func (s *sourceCluster) fill(ctx context.Context, o options, dir string) error {
	for name, labels := range map[string]map[string]string{
		installedIn: nil, namespace: {v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if err := s.client.Create(ctx, ns); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.follow(ctx, o); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range o.targets {
		group.Go(func() error {
			key := nameOf(i)
			proxies, err := s.proxies(ctx, o, i)
			if err != nil {
				return err
			}
			c, err := contentOf(key, proxies)
			if err != nil {
				return err
			}
			return c.write(filepath.Join(dir, key.Name))
		})
	}
	return group.Wait()
}

// nameOf returns the name of the i-th ClusterTarget.
func nameOf(i int) types.NamespacedName {
	return types.NamespacedName{Name: fmt.Sprintf("target%03d", i)}
}

// proxies creates the proxies of the i-th target.
func (s *sourceCluster) proxies(ctx context.Context, o options, i int) ([]*corev1.Pod, error) {
	var proxies []*corev1.Pod
	for n := i * o.proxies / o.targets; n < (i+1)*o.proxies/o.targets; n++ {
		proxy, err := newProxy(n, translate.VirtualNodeName(nameOf(i)), o.following)
		if err != nil {
			return nil, err
		}
		if err := s.client.Create(ctx, proxy); err != nil {
			return nil, fmt.Errorf("creating proxy %s: %w", proxy.Name, err)
		}
		proxies = append(proxies, proxy)
	}
	return proxies, nil
}

// contentOf returns the objects of a target: its summary, and the PodChaperons of the proxies.
func contentOf(target types.NamespacedName, proxies []*corev1.Pod) (content, error) {
	c := content{"clustersummaries": {newSummary(proxies)}}
	for _, proxy := range proxies {
		chaperon, err := newChaperon(proxy, target)
		if err != nil {
			return nil, err
		}
		c["podchaperons"] = append(c["podchaperons"], chaperon)
	}
	return c, nil
}

// connect creates ClusterTargets, with Secrets, that lead to the simulated targets' addresses.
func (s *sourceCluster) connect(ctx context.Context, found addresses) error {
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: installedIn, Name: "multicluster-scheduler-proof"}}
	if err := s.client.Create(ctx, key); err != nil {
		return fmt.Errorf("creating Secret %s: %w", key.Name, err)
	}
	for name, address := range found.Targets {
		config := clientcmdapi.NewConfig()
		config.Clusters["target"] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: found.CA}
		config.AuthInfos["source"] = &clientcmdapi.AuthInfo{Token: "simulated"}
		config.Contexts["target"] = &clientcmdapi.Context{Cluster: "target", AuthInfo: "source"}
		config.CurrentContext = "target"
		kubeconfig, err := clientcmd.Write(*config)
		if err != nil {
			return err
		}
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: installedIn, Name: name},
			Data:       map[string][]byte{"config": kubeconfig},
		}
		target := &v1alpha1.ClusterTarget{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ClusterTargetSpec{KubeconfigSecret: &v1alpha1.ClusterKubeconfigSecret{
				Namespace: installedIn, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: name, Key: "config"},
			}},
		}
		if err := s.client.Create(ctx, secret); err != nil {
			return fmt.Errorf("creating Secret %s: %w", name, err)
		}
		if err := s.client.Create(ctx, target); err != nil {
			return fmt.Errorf("creating ClusterTarget %s: %w", name, err)
		}
	}
	return nil
}
