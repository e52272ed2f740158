package devices

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	schedulerprofile "k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const nodeName = "n"

// The tests share a source and two targets, c1 and c2, each with one node.
var (
	source   *env.Cluster
	targets  map[string]*env.Target
	placed   = &attempts{of: map[string]int{}}
	us       = translate.Source{ClusterID: "source"}
	keys     = proof.Generate(time.Now().Add(-time.Hour))
	registry *engage.Registry
)

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		clusters := env.Start(t, "source", "c1", "c2")
		source, targets = clusters[0], map[string]*env.Target{}
		for _, in := range clusters[1:] {
			setUpTarget(t, in)
			createNode(t, source, env.VirtualNode("admiralty-"+in.Name))
			targets[in.Name] = env.NewTarget(in, types.NamespacedName{Name: in.Name})
		}
		runSource(t)
		for name, target := range targets {
			target.Cached, target.Source, target.Verifier = true, source, keys
			target.Engage(t, registry)
			placed.watch(t, name, target)
		}
	})
}

// setUpTarget runs what a target runs, and kube-scheduler, over one node.
func setUpTarget(t env.T, in *env.Cluster) {
	t.Helper()
	createNode(t, in, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	env.RunManager(t, in.Impersonate(install(t, in)), func(mgr ctrl.Manager) error {
		recorder := mgr.GetEventRecorder("chaperon")
		chaperons := chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, recorder, "")
		if err := chaperons.Register(mgr); err != nil {
			return err
		}
		return publish(mgr)
	})
	env.Run(t, func(ctx context.Context) error { return schedule(ctx, in) })
}

// install gives the manager the rights of the chart, and returns its user.
func install(t env.T, in *env.Cluster) string {
	t.Helper()
	user := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	env.Create(t, in, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	in.Install(t, env.Render(t, env.Release, "--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false",
		"--set", "roles.source=false"), user)
	return user
}

func publish(mgr ctrl.Manager) error {
	version, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return err
	}
	return capacity.New(capacity.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Version: version, Clock: clock.RealClock{}, ClusterID: "target",
	}).Register(mgr)
}

// schedule runs kube-scheduler with its default profile.
func schedule(ctx context.Context, in *env.Cluster) error {
	clients, err := kubernetes.NewForConfig(in.Config)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	defer broadcaster.Shutdown()
	factory := kubescheduler.NewInformerFactory(clients, 0, nil)
	scheduler, err := kubescheduler.New(ctx, clients, factory, nil, schedulerprofile.NewRecorderFactory(broadcaster))
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if scheduler.WaitForHandlersSync(ctx) == nil {
		scheduler.Run(ctx)
	}
	return nil
}

// runSource runs the scheduler of proxies, and feedback. A target may take an hour to decide: nothing here is due to a
// time-out.
func runSource(t env.T) {
	t.Helper()
	env.RunManager(t, source.Config, func(mgr ctrl.Manager) error {
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		f := feedback.New(feedback.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Source: us,
			Proxies:  podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
			Keys:     func() (*proof.Keys, error) { return keys, nil },
			Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
		})
		registry = engage.NewRegistry(f)
		scheduler, err := scheduling.New(scheduling.Options{
			Config: mgr.GetConfig(), Source: us, Registry: registry, Strategy: configv1alpha1.Spread,
			Sign:    func(claim proof.Claim) (string, error) { return keys.Sign(claim), nil },
			Timeout: time.Hour,
		})
		if err != nil {
			return err
		}
		if err := mgr.Add(scheduler); err != nil {
			return err
		}
		return f.Register(mgr)
	})
}

// createNode creates a node that lists no devices.
func createNode(t env.T, in *env.Cluster, node *corev1.Node) {
	t.Helper()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[corev1.LabelHostname] = node.Name
	env.Create(t, in, node)
	env.ChangeStatus(t, in, node, func(node *corev1.Node) {
		node.Status.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("8"),
			corev1.ResourceMemory: resource.MustParse("8Gi"),
			corev1.ResourcePods:   resource.MustParse("110"),
		}
		node.Status.Allocatable = node.Status.Capacity
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	// An API server taints new nodes until a controller finds them ready.
	env.Change(t, in, node, func(node *corev1.Node) { node.Spec.Taints = nil })
}

// attempts counts the PodChaperons that were created, by target and proxy.
type attempts struct {
	mu sync.Mutex // guards of
	of map[string]int
}

func (a *attempts) watch(t env.T, name string, target *env.Target) {
	t.Helper()
	informer, err := target.Cache.GetInformer(t.Context(), &v1alpha1.PodChaperon{})
	env.Must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		annotations := o.(*v1alpha1.PodChaperon).Annotations
		a.mu.Lock()
		defer a.mu.Unlock()
		a.of[name+": "+annotations[v1alpha1.AnnotationParentNamespace]+"/"+annotations[v1alpha1.AnnotationParentName]]++
	}})
	env.Must(t, err)
}

// in returns how often a pod was placed in a target.
func (a *attempts) in(target string, pod *corev1.Pod) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[target+": "+pod.Namespace+"/"+pod.Name]
}

// driver of a test provides devices, and its DeviceClass has a resource. Names are those of the test's namespace.
type driver struct{ namespace string }

func newDriver(t *testing.T) driver {
	t.Helper()
	return driver{env.Namespace(t, env.Enabled(), source, targets["c1"].Cluster, targets["c2"].Cluster)}
}

func (d driver) name() string { return d.namespace + ".example.com" }

// class creates the DeviceClass in a target. The resource may be empty.
func (d driver) class(t *testing.T, target, resource string) {
	t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: d.name()}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{
		CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", d.name())},
	}}
	if resource != "" {
		class.Spec.ExtendedResourceName = &resource
	}
	env.CreateForTest(t, targets[target].Cluster, class)
}

// device adds one device to the node of a target.
func (d driver) device(t *testing.T, target string) {
	t.Helper()
	node := nodeName
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: d.name()}}
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: d.name(), NodeName: &node, Devices: []resourcev1.Device{{Name: "device-0"}},
		Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
	}
	env.CreateForTest(t, targets[target].Cluster, slice)
}

// pod creates a proxy that requests one of a resource. It may go to the target only, unless that is empty.
func (d driver) pod(t *testing.T, name, of, target string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	proxy := env.Proxy(d.namespace, name, func(pod *corev1.Pod) {
		requests := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceName(of): resource.MustParse("1"),
		}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: requests}
		if target != "" {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "admiralty-" + target}
		}
		for _, change := range changes {
			change(pod)
		}
	})
	env.Create(t, source, proxy)
	t.Cleanup(func() { d.forget(t, proxy) })
	return proxy
}

// forget deletes a pod everywhere.
func (d driver) forget(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	_ = source.Client.Delete(ctx, proxy)
	for _, target := range targets {
		delegate := &corev1.Pod{ObjectMeta: env.Meta(d.namespace, translate.DelegateName(proxy))}
		_ = target.Cluster.Client.Delete(ctx, delegate)
	}
}
