package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	namespace = "performance"
	creators  = 20
	deadline  = 10 * time.Minute
)

type cluster struct {
	name   string
	client client.Client
	set    *kubernetes.Clientset
}

type bench struct {
	clusters map[string]*cluster
	names    []string
}

// burst is so many pods created at once.
type burst struct {
	kind    string
	pods    int
	targets []string
}

func newBench(ctx context.Context, kubeconfig string, sets [][]string) (*bench, error) {
	b := &bench{clusters: map[string]*cluster{}, names: []string{"c1"}}
	for _, name := range slices.Concat(sets...) {
		if !slices.Contains(b.names, name) {
			b.names = append(b.names, name)
		}
	}
	for _, name := range b.names {
		c, err := open(kubeconfig, name)
		if err != nil {
			return nil, fmt.Errorf("opening cluster %s: %w", name, err)
		}
		b.clusters[name] = c
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
			v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}}}
		if err := c.client.Patch(ctx, ns, client.Merge); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("labelling namespace %s in %s: %w", namespace, name, err)
		} else if err != nil {
			if err := c.client.Create(ctx, ns); err != nil {
				return nil, fmt.Errorf("creating namespace %s in %s: %w", namespace, name, err)
			}
		}
	}
	return b, nil
}

func open(kubeconfig, context string) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.NewForConfig(config)
	return &cluster{name: context, client: c, set: set}, err
}

// close lets every virtual node take pods again and removes the pods.
func (b *bench) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_ = b.onlyTargets(ctx, b.names)
	_ = b.source().DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace))
}

func (b *bench) source() client.Client { return b.clusters["c1"].client }

// measure starts a burst of pods, waits until all run, deletes them and waits until nothing is left in any cluster.
func (b *bench) measure(ctx context.Context, load burst) (result, error) {
	fmt.Printf("%d %s pods, targets %v … ", load.pods, load.kind, load.targets)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := b.onlyTargets(ctx, load.targets); err != nil {
		return result{}, err
	}
	before, err := b.usage(ctx)
	if err != nil {
		return result{}, err
	}
	latencies, took, spread, err := b.start(ctx, load)
	if err != nil {
		return result{}, fmt.Errorf("starting %d %s pods: %w", load.pods, load.kind, err)
	}
	after, err := b.usage(ctx)
	if err != nil {
		return result{}, err
	}
	deleted, err := b.clear(ctx)
	if err != nil {
		return result{}, fmt.Errorf("deleting %d %s pods: %w", load.pods, load.kind, err)
	}
	r := result{
		Kind: load.kind, Targets: len(load.targets), Pods: load.pods, Time: time.Now().UTC(), Spread: spread,
		PodsPerSecond: float64(load.pods) / took.Seconds(),
		P50Seconds:    percentile(latencies, 50), P99Seconds: percentile(latencies, 99),
		DeleteSeconds: deleted.Seconds(),
	}
	after.since(before).perPod(&r)
	fmt.Printf("%.1f pods/s, p99 %.2f s, %.1f writes per pod\n", r.PodsPerSecond, r.P99Seconds, r.WritesPerPod)
	return r, nil
}

// onlyTargets cordons the virtual nodes of all clusters but these.
func (b *bench) onlyTargets(ctx context.Context, targets []string) error {
	nodes := &corev1.NodeList{}
	if err := b.source().List(ctx, nodes, client.MatchingLabels{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}); err != nil {
		return fmt.Errorf("listing virtual nodes: %w", err)
	}
	for _, node := range nodes.Items {
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, !slices.Contains(targets, node.Labels[v1alpha1.LabelClusterTargetName]))
		if err := b.source().Patch(ctx, &node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("cordoning or uncordoning %s: %w", node.Name, err)
		}
	}
	return nil
}

// start creates the pods and follows them until all run. A pod's latency is from just before its creation until the
// watch shows it Running.
func (b *bench) start(ctx context.Context, load burst) ([]time.Duration, time.Duration, map[string]int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := b.follow(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	start := time.Now()
	created := make([]time.Time, load.pods)
	failed := make(chan error, 1)
	go func() { failed <- b.create(ctx, load, created) }()

	running, spread := map[string]time.Time{}, map[string]int{}
	for creating := true; creating || len(running) < load.pods; {
		select {
		case <-ctx.Done():
			return nil, 0, nil, fmt.Errorf("only %d of %d pods run: %w", len(running), load.pods, ctx.Err())
		case err := <-failed:
			if err != nil {
				return nil, 0, nil, err
			}
			creating = false
		case pod := <-seen:
			if _, known := running[pod.Name]; !known {
				running[pod.Name] = time.Now()
				spread[pod.Spec.NodeName]++
			}
		}
	}
	took := time.Since(start)
	latencies := make([]time.Duration, load.pods)
	for i := range latencies {
		latencies[i] = running[newPod(load, i).Name].Sub(created[i])
	}
	return latencies, took, spread, nil
}

// create makes the pods, a number of them at a time, and notes when it began with each.
func (b *bench) create(ctx context.Context, load burst, created []time.Time) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for i := range load.pods {
		group.Go(func() error {
			created[i] = time.Now()
			return b.source().Create(ctx, newPod(load, i))
		})
	}
	return group.Wait()
}

// follow sends each pod of the namespace when it is seen running, until ctx ends.
func (b *bench) follow(ctx context.Context) (<-chan *corev1.Pod, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(b.clusters["c1"].set, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "burst" }))
	running := make(chan *corev1.Pod)
	send := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
			select {
			case running <- pod:
			case <-ctx.Done():
			}
		}
	}
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    send,
		UpdateFunc: func(_, obj any) { send(obj) },
	})
	factory.Start(ctx.Done())
	if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, ctx.Err()
	}
	return running, err
}

func newPod(load burst, i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d-%d", load.kind, len(load.targets), i), Namespace: namespace,
			Labels: map[string]string{"burst": load.kind},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"type": "kwok"},
			Tolerations:  []corev1.Toleration{{Key: "kwok.x-k8s.io/node", Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "main", Image: "simulated",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
				}},
			}},
			TerminationGracePeriodSeconds: new(int64(1)),
		},
	}
	if load.kind == "elected" {
		pod.Annotations = map[string]string{v1alpha1.AnnotationElect: ""}
	}
	return pod
}

// clear deletes the pods and waits until no pod and no PodChaperon is left in any cluster.
func (b *bench) clear(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	if err := b.source().DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace)); err != nil {
		return 0, err
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		left, err := b.left(ctx)
		if err != nil {
			return 0, err
		}
		if left == 0 {
			return time.Since(start), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d objects are left: %w", left, ctx.Err())
		case <-ticker.C:
		}
	}
}

func (b *bench) left(ctx context.Context) (int, error) {
	left := 0
	for _, c := range b.clusters {
		pods, chaperons := &corev1.PodList{}, &v1alpha1.PodChaperonList{}
		for _, list := range []client.ObjectList{pods, chaperons} {
			if err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
				return 0, err
			}
		}
		left += len(pods.Items) + len(chaperons.Items)
	}
	return left, nil
}

func percentile(latencies []time.Duration, p int) float64 {
	slices.Sort(latencies)
	return latencies[(len(latencies)-1)*p/100].Seconds()
}

func dirOf(path string) string { return filepath.Dir(path) }

func printTable(out io.Writer, results []result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "kind\ttargets\tpods\tpods/s\tp50 s\tp99 s\twrites/pod\tin source\tCPU ms/pod\tdelete s\t")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.1f\t%.1f\t%.0f\t%.1f\t\n", r.Kind, r.Targets, r.Pods, r.PodsPerSecond,
			r.P50Seconds, r.P99Seconds, r.WritesPerPod, r.SourceWrites, r.CPUSeconds*1000, r.DeleteSeconds)
	}
	_ = w.Flush()
	for _, r := range results {
		fmt.Fprintf(out, "\n%s pods, %d targets, %d at once: CPU ms per pod:", r.Kind, r.Targets, r.Pods)
		for _, program := range slices.SortedFunc(maps.Keys(r.CPUByProgram), func(a, b string) int {
			return cmp.Compare(r.CPUByProgram[b], r.CPUByProgram[a])
		}) {
			fmt.Fprintf(out, " %s %.1f;", program, r.CPUByProgram[program]*1000)
		}
	}
	fmt.Fprintln(out)
}
