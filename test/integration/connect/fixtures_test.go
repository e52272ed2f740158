package connect

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// summary is what c2 publishes: 10 CPUs, of which 4 are requested, 1 of these by us.
func summary() *v1alpha1.ClusterSummary {
	cpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	return &v1alpha1.ClusterSummary{
		ObjectMeta:  metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName, Labels: map[string]string{"zone": "a", "hidden": "b"}},
		Capacity:    cpus("12"),
		Allocatable: cpus("10"),
		Status: v1alpha1.ClusterSummaryStatus{
			Requested: cpus("4"),
			Sources:   []v1alpha1.SourceUsage{{ClusterID: clusterID, Requested: cpus("1")}, {ClusterID: "another", Requested: cpus("2")}},
		},
	}
}

// publish makes s the summary of c2.
func publish(ctx context.Context, s *v1alpha1.ClusterSummary) error {
	old := &v1alpha1.ClusterSummary{}
	if err := c2.Client.Get(ctx, client.ObjectKeyFromObject(s), old); err != nil {
		return err
	}
	status := s.Status
	s.ResourceVersion = old.ResourceVersion
	if err := c2.Client.Update(ctx, s); err != nil {
		return err
	}
	s.Status = status
	return c2.Client.Status().Update(ctx, s)
}

func kubeconfigOf(t *testing.T, config *rest.Config) []byte {
	t.Helper()
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters["c"] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	kubeconfig.AuthInfos["u"] = &api.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	kubeconfig.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "x"
	data, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func kubeconfigSecret(t *testing.T, namespace string, config *rest.Config) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c2"},
		Data:       map[string][]byte{"config": kubeconfigOf(t, config)},
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// clusterTarget creates a ClusterTarget for the Secret c2 of a namespace. Its name is the namespace's.
func clusterTarget(t *testing.T, namespace string) types.NamespacedName {
	t.Helper()
	create(t, c1.Client, &v1alpha1.ClusterTarget{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.ClusterTargetSpec{
			KubeconfigSecret:     &v1alpha1.ClusterKubeconfigSecret{Namespace: namespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "c2"}},
			ExcludedLabelsRegexp: "^hidden=",
		},
	})
	return types.NamespacedName{Name: namespace}
}

// connectedTarget creates a namespace, a Secret with a kubeconfig for config, and a ClusterTarget, and waits until it is Ready.
func connectedTarget(t *testing.T, config *rest.Config) (types.NamespacedName, *corev1.Secret) {
	t.Helper()
	namespace := c1.Namespace(t, nil)
	secret := kubeconfigSecret(t, namespace, config)
	create(t, c1.Client, secret)
	key := clusterTarget(t, namespace)
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
	return key, secret
}

// expect waits until a condition of a target has a reason and a message that contains text.
func expect(t *testing.T, key types.NamespacedName, conditionType, reason, text string) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		target := targetkind.New(key)
		if err := c1.Client.Get(ctx, key, target); err != nil {
			return err
		}
		condition := meta.FindStatusCondition(targetkind.Status(target).Conditions, conditionType)
		if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, text) {
			return fmt.Errorf("condition %s of %s is %+v, want reason %s and something about %q", conditionType, key, condition, reason, text)
		}
		if condition.ObservedGeneration != target.GetGeneration() {
			return fmt.Errorf("condition %s is of generation %d", conditionType, condition.ObservedGeneration)
		}
		return nil
	})
}

// expectNode waits until the virtual node of a target is as check wants it, and returns it.
func expectNode(t *testing.T, key types.NamespacedName, check func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	apiserver.Eventually(t, func(ctx context.Context) error {
		*node = corev1.Node{}
		if err := c1.Client.Get(ctx, types.NamespacedName{Name: translate.VirtualNodeName(key)}, node); err != nil {
			return err
		}
		return check(node)
	})
	return node
}

func ready(status corev1.ConditionStatus) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == status {
				return nil
			}
		}
		return fmt.Errorf("conditions of %s are %+v, want Ready=%s", node.Name, node.Status.Conditions, status)
	}
}

// chaperon creates a PodChaperon in c2 as this source would for a target.
func chaperon(t *testing.T, key types.NamespacedName, namespace, name string) *v1alpha1.PodChaperon {
	t.Helper()
	chaperon := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        name,
			Labels:      map[string]string{v1alpha1.LabelParentClusterID: clusterID, v1alpha1.LabelTargetHash: translate.TargetHash(key)},
			Annotations: map[string]string{v1alpha1.AnnotationParentNamespace: namespace, v1alpha1.AnnotationParentName: "proxy-of-" + name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	create(t, c2.Client, chaperon)
	return chaperon
}

// wire is a TCP connection to a cluster that can be cut, so that nothing passes and nothing is closed.
type wire struct {
	config *rest.Config

	mu     sync.Mutex // guards cut
	cut    chan struct{}
	remote string
}

func newWire(t *testing.T, config *rest.Config) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	host, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{config: rest.CopyConfig(config), remote: host.Host}
	if w.remote == "" {
		w.remote = config.Host
	}
	w.config.Host = "https://" + listener.Addr().String()
	w.mend()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go w.pass(connection)
		}
	}()
	return w
}

func (w *wire) pass(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	w.wait()
	server, err := net.Dial("tcp", w.remote)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{connection, server}, {server, connection}} {
		go func() {
			defer func() { done <- struct{}{} }()
			buffer := make([]byte, 1<<15)
			for {
				n, err := pair[0].Read(buffer)
				w.wait()
				if _, writeErr := pair[1].Write(buffer[:n]); err != nil || writeErr != nil {
					return
				}
			}
		}()
	}
	<-done
}

func (w *wire) wait() {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	<-cut
}

func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
	close(w.cut)
}
