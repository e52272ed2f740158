package scheduling

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const (
	clusterID = "source-id"
	user      = "scheduler"
)

// clusters are shared by the tests of this package, which clean up after themselves.
var clusters struct{ source, c1, c2 *apiserver.Cluster }

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	log.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	options := apiserver.Options{Scheme: newScheme()}
	for name, cluster := range map[string]**apiserver.Cluster{
		"source": &clusters.source, "c1": &clusters.c1, "c2": &clusters.c2,
	} {
		started, err := apiserver.New(name, options)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer started.Stop() //nolint:errcheck // nothing is left to be done about it
		*cluster = started
	}
	return m.Run()
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// environment is a scheduler with two targets, c1 and c2, for one test.
type environment struct {
	t         *testing.T
	namespace string
	registry  *engage.Registry
	targets   map[string]*fakeTarget
	// stop the scheduler, and wait until it has stopped.
	stop func()
}

// fakeTarget is a target of which the test is the chaperon controller and the garbage collector.
type fakeTarget struct {
	*engage.Target
	cluster *apiserver.Cluster
	// answer to each PodChaperon; nil as long as there is none.
	answer  atomic.Pointer[func(*v1alpha1.PodChaperon)]
	created atomic.Int32
	// slow delegates do not end before release.
	slow atomic.Bool
}

// start a scheduler. Both targets schedule what they are given, and have the room of one node with the CPUs given.
func start(t *testing.T, timeout time.Duration, cpus map[string]string) *environment {
	t.Helper()
	e := &environment{t: t, namespace: clusters.source.Namespace(t, enabled()), targets: map[string]*fakeTarget{}}
	grant(t)
	for name, cluster := range map[string]*apiserver.Cluster{"c1": clusters.c1, "c2": clusters.c2} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
		must(t, cluster.Client.Create(t.Context(), namespace))
		e.targets[name] = newTarget(t, name, cluster)
		e.node(name, cpus[name])
		e.summarize(name, cpus[name])
		e.answer(name, running)
	}
	t.Cleanup(e.clean)
	e.run(timeout)
	return e
}

// run a scheduler, as the leader does.
func (e *environment) run(timeout time.Duration) {
	e.t.Helper()
	config, err := clusters.source.User(user)
	must(e.t, err)
	e.registry = engage.NewRegistry()
	s, err := scheduling.New(scheduling.Options{
		Config:   config,
		Source:   translate.Source{ClusterID: clusterID},
		Registry: e.registry,
		Strategy: configv1alpha1.Spread,
		Timeout:  timeout,
	})
	must(e.t, err)
	ctx, cancel := context.WithCancel(e.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	for _, target := range e.targets {
		must(e.t, e.registry.Engage(ctx, target.Target))
	}
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			e.t.Errorf("scheduling: %v", err)
		}
	})
}

func (e *environment) clean() {
	e.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), time.Minute)
	defer cancel()
	pods := &corev1.PodList{}
	must(e.t, clusters.source.Client.List(ctx, pods))
	for i := range pods.Items {
		must(e.t, clusters.source.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))
	}
	for _, target := range e.targets {
		must(e.t, target.cluster.Client.DeleteAllOf(ctx, &v1alpha1.PodChaperon{}, client.InNamespace(e.namespace)))
		must(e.t, target.cluster.Client.DeleteAllOf(ctx, &v1alpha1.ClusterSummary{}))
	}
	must(e.t, clusters.source.Client.DeleteAllOf(ctx, &corev1.Node{}))
}

func enabled() map[string]string {
	return map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}
}

// grant what the documentation of the package says that it needs.
func grant(t *testing.T) {
	t.Helper()
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		rule("", []string{"pods"}, "list", "watch"),
		rule("", []string{"pods/binding"}, "create"),
		rule("", []string{"pods/status"}, "patch"),
		rule("", []string{"nodes", "namespaces"}, "list", "watch"),
		rule("events.k8s.io", []string{"events"}, "create", "patch", "update"),
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	for _, o := range []client.Object{role, binding} {
		must(t, client.IgnoreAlreadyExists(clusters.source.Client.Create(t.Context(), o)))
	}
}

func newTarget(t *testing.T, name string, cluster *apiserver.Cluster) *fakeTarget {
	t.Helper()
	key := types.NamespacedName{Name: name}
	hash := translate.TargetHash(key)
	selector := labels.SelectorFromSet(labels.Set{v1alpha1.LabelParentClusterID: clusterID, v1alpha1.LabelTargetHash: hash})
	c, err := cache.New(cluster.Config, cache.Options{
		Scheme:           cluster.Client.Scheme(),
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject:         map[client.Object]cache.ByObject{&v1alpha1.PodChaperon{}: {Label: selector}},
	})
	must(t, err)
	target := &fakeTarget{cluster: cluster}
	informer, err := c.GetInformer(t.Context(), &v1alpha1.PodChaperon{}, cache.BlockUntilSynced(false))
	must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		target.created.Add(1)
		if answer := target.answer.Load(); *answer != nil {
			target.say(t, o.(*v1alpha1.PodChaperon), *answer)
		}
	}, UpdateFunc: func(_, o any) {
		if !target.slow.Load() {
			target.release(t, o.(*v1alpha1.PodChaperon))
		}
	}})
	must(t, err)
	go func() { _ = c.Start(t.Context()) }()
	cached, err := client.New(cluster.Config, client.Options{
		Scheme: cluster.Client.Scheme(),
		Cache:  &client.CacheOptions{Reader: c},
	})
	must(t, err)
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatalf("the cache of %s has not synced", name)
	}
	target.Target = &engage.Target{
		Key:       key,
		NodeName:  "admiralty-" + name,
		Hash:      hash,
		Config:    cluster.Config,
		Client:    cached,
		APIReader: cluster.Client,
		Cache:     c,
	}
	return target
}

// answer from now on what is asked of a target; nil is silence.
func (e *environment) answer(name string, answer func(*v1alpha1.PodChaperon)) {
	e.targets[name].answer.Store(&answer)
}

// node makes the virtual node of a target.
func (e *environment) node(name, cpus string) {
	e.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "admiralty-" + name,
		Labels: map[string]string{
			v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue,
			corev1.LabelHostname:       "admiralty-" + name,
		},
	}}
	must(e.t, clusters.source.Client.Create(e.t.Context(), node))
	before := node.DeepCopy()
	node.Status.Allocatable = room(cpus)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must(e.t, clusters.source.Client.Status().Patch(e.t.Context(), node, client.MergeFrom(before)))
}

// summarize writes the ClusterSummary of a target with one node.
func (e *environment) summarize(name, cpus string) {
	e.t.Helper()
	e.summarizeAs(name, v1alpha1.NodeClass{
		Nodes: 1, Allocatable: room("100"), Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room(cpus)}},
	})
}

// summarizeAs writes the ClusterSummary of a target with nodes of one class.
func (e *environment) summarizeAs(name string, class v1alpha1.NodeClass) {
	e.t.Helper()
	c := clusters.c1.Client
	if name == "c2" {
		c = clusters.c2.Client
	}
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	must(e.t, client.IgnoreAlreadyExists(c.Create(e.t.Context(), summary)))
	must(e.t, c.Get(e.t.Context(), client.ObjectKeyFromObject(summary), summary))
	before := summary.DeepCopy()
	summary.Status = v1alpha1.ClusterSummaryStatus{Nodes: class.Nodes, Classes: []v1alpha1.NodeClass{class}}
	must(e.t, c.Status().Patch(e.t.Context(), summary, client.MergeFrom(before)))
}

func room(cpus string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpus),
		corev1.ResourceMemory: resource.MustParse("100Gi"),
		corev1.ResourcePods:   resource.MustParse("500"),
	}
}

// pod creates a proxy as admission leaves it.
func (e *environment) pod(name, cpus string, change ...func(*corev1.Pod)) *corev1.Pod {
	e.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: e.namespace,
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName,
			Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: "main",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}},
			}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	must(e.t, clusters.source.Client.Create(e.t.Context(), pod))
	return pod
}

func onNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "admiralty-" + name}
	}
}

// bound waits until pods are bound and returns how many to each target.
func (e *environment) bound(pods ...*corev1.Pod) map[string]int {
	e.t.Helper()
	counts := map[string]int{}
	for _, pod := range pods {
		apiserver.Eventually(e.t, func(ctx context.Context) error {
			if err := clusters.source.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("pod %s is not bound: %v", pod.Name, pod.Status.Conditions)
			}
			return nil
		})
		counts[pod.Spec.NodeName[len("admiralty-"):]]++
	}
	return counts
}

// message waits until a pod is reported unschedulable and returns why.
func (e *environment) message(pod *corev1.Pod) (message string) {
	e.t.Helper()
	apiserver.Eventually(e.t, func(ctx context.Context) error {
		if err := clusters.source.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				message = c.Message
				return nil
			}
		}
		return errors.New("the pod is not reported unschedulable")
	})
	return message
}

// chaperons returns those of this test in a target.
func (e *environment) chaperons(name string) []v1alpha1.PodChaperon {
	e.t.Helper()
	list := &v1alpha1.PodChaperonList{}
	must(e.t, e.targets[name].cluster.Client.List(e.t.Context(), list, client.InNamespace(e.namespace)))
	return list.Items
}

// placed waits until a target has as many PodChaperons, and returns the first.
func (e *environment) placed(name string, count int) *v1alpha1.PodChaperon {
	e.t.Helper()
	var found []v1alpha1.PodChaperon
	apiserver.Eventually(e.t, func(context.Context) error {
		if found = e.chaperons(name); len(found) != count {
			return fmt.Errorf("%s has %d PodChaperons, want %d", name, len(found), count)
		}
		return nil
	})
	if count == 0 {
		return nil
	}
	return &found[0]
}

// anywhere waits until both targets together have as many PodChaperons, and returns them.
func (e *environment) anywhere(count int) (found map[string][]v1alpha1.PodChaperon) {
	e.t.Helper()
	apiserver.Eventually(e.t, func(context.Context) error {
		found = map[string][]v1alpha1.PodChaperon{"c1": e.chaperons("c1"), "c2": e.chaperons("c2")}
		if there := len(found["c1"]) + len(found["c2"]); there != count {
			return fmt.Errorf("there are %d PodChaperons, want %d", there, count)
		}
		return nil
	})
	return found
}

// chaperonOf finds the PodChaperon of a pod in a target.
func (e *environment) chaperonOf(name string, pod *corev1.Pod) *v1alpha1.PodChaperon {
	e.t.Helper()
	chaperon := &v1alpha1.PodChaperon{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: translate.DelegateName(pod)}
	must(e.t, e.targets[name].cluster.Client.Get(e.t.Context(), key, chaperon))
	return chaperon
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
