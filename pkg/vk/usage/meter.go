package usage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// resolution is the time for which numbers are used again.
	resolution = 10 * time.Second
	// pause is the time after which a target without metrics is asked again.
	pause = time.Minute
	// timeout is shorter than that of metrics-server, 10 seconds by default.
	timeout = 8 * time.Second
	// parallel is the number of namespaces of a target that are read at the same time.
	parallel = 4
)

// Options of New. All are required.
type Options struct {
	// Registry has the targets.
	Registry *engage.Registry
	// Proxies reads proxies with their status, from a cache.
	Proxies client.Reader
	// ClusterID is the source's, by which delegates are labelled.
	ClusterID string
	Clock     clock.PassiveClock
	Logger    logr.Logger
}

// Meter measures the pods of virtual nodes. It is safe for concurrent use.
type Meter struct {
	options Options

	mu     sync.Mutex // guards gauges
	gauges map[string]*gauge
}

// New returns a Meter without numbers.
func New(options Options) *Meter {
	return &Meter{options: options, gauges: map[string]*gauge{}}
}

// Usage is the use of a container, of a pod or of a node.
type Usage struct {
	// Begun is the time at which Seconds began to count, and Time that of the sample.
	Begun, Time time.Time
	// Seconds is the CPU time since Begun.
	Seconds float64
	// Cores is the last rate.
	Cores float64
	// Memory is the working set in bytes.
	Memory uint64
}

// Pod is a proxy. All of its running containers have a usage.
type Pod struct {
	Key        types.NamespacedName
	UID        types.UID
	Containers map[string]Usage
}

// Sum returns the usage of the pod. Its counter is the sum of those of its containers.
func (p Pod) Sum() Usage {
	sum := Usage{}
	for _, container := range p.Containers {
		if sum.Begun.IsZero() || container.Begun.Before(sum.Begun) {
			sum.Begun = container.Begun
		}
		if container.Time.After(sum.Time) {
			sum.Time = container.Time
		}
		sum.Seconds += container.Seconds
		sum.Cores += container.Cores
		sum.Memory += container.Memory
	}
	return sum
}

// Node is a virtual node. It is not to be changed.
type Node struct {
	// Usage is the sum of the pods. It is nil if no pod has a usage.
	Usage *Usage
	Pods  []Pod
	// Failed says why some pods, or all, are missing. It may be nil.
	Failed error
}

// gauge has the numbers of one node.
type gauge struct {
	mu       sync.Mutex // guards the fields below. Readers of one node wait for each other.
	node     *Node
	begun    time.Time
	read     time.Time
	again    time.Time
	seconds  float64
	counters map[counted]*counter
	problem  string
}

// counted identifies a container.
type counted struct {
	uid  types.UID
	name string
}

// Node returns the usage of a target's pods. It asks the target if the numbers are not of the last seconds.
func (m *Meter) Node(ctx context.Context, target *engage.Target) (*Node, error) {
	g := m.gaugeOf(target.NodeName)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := m.options.Clock.Now()
	if g.node != nil && now.Before(g.again) {
		return g.node, nil
	}
	proxies, err := m.proxies(ctx, target)
	if err != nil {
		return nil, err
	}
	samples, failed := m.readAll(ctx, target, proxies)
	now = m.options.Clock.Now()
	g.again = now.Add(resolution)
	if errors.Is(failed, errNoMetrics) {
		g.again = now.Add(pause)
	}
	g.note(m.options.Logger.WithValues("target", target.Key), failed)
	g.count(proxies, samples, now)
	g.node = g.sum(proxies, now)
	g.node.Failed = failed
	return g.node, nil
}

// gaugeOf returns the gauge of a node, and forgets those of nodes that have no target any more.
func (m *Meter) gaugeOf(nodeName string) *gauge {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.gauges {
		if _, engaged := m.options.Registry.ByNode(name); !engaged {
			delete(m.gauges, name)
		}
	}
	g, ok := m.gauges[nodeName]
	if !ok {
		g = &gauge{counters: map[counted]*counter{}}
		m.gauges[nodeName] = g
	}
	return g
}

// proxy is a proxy whose delegate runs.
type proxy struct {
	*corev1.Pod

	delegate string
}

// proxies returns the proxies on the target's node, by namespace.
func (m *Meter) proxies(ctx context.Context, target *engage.Target) (map[string][]proxy, error) {
	list := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing PodChaperons: %w", err)
	}
	all := map[string][]proxy{}
	for i := range list.Items {
		parent := gate.ParentOf(&list.Items[i])
		pod := &corev1.Pod{}
		err := m.options.Proxies.Get(ctx, parent.Key, pod, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err), err == nil && !runs(pod, &list.Items[i], target):
		case err != nil:
			return nil, fmt.Errorf("getting the pod %q: %w", parent.Key, err)
		default:
			all[pod.Namespace] = append(all[pod.Namespace], proxy{pod, list.Items[i].Name})
		}
	}
	return all, nil
}

func runs(pod *corev1.Pod, chaperon *v1alpha1.PodChaperon, target *engage.Target) bool {
	parent := gate.ParentOf(chaperon)
	return pod.UID == parent.UID && !parent.Orphan && chaperon.Name == translate.DelegateName(pod) &&
		pod.Spec.NodeName == target.NodeName && pod.Status.Phase == corev1.PodRunning
}

// readAll reads the samples of all namespaces with proxies. Those that cannot be read are missing.
func (m *Meter) readAll(
	ctx context.Context, target *engage.Target, proxies map[string][]proxy,
) (map[string]names, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var mu sync.Mutex // guards the variables below
	all, failed := map[string]names{}, error(nil)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for namespace := range proxies {
		group.Go(func() error {
			samples, err := m.read(ctx, target, namespace)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				all[namespace] = samples
			case errors.Is(err, errNoMetrics): // No other namespace has any.
				failed = err
				return err
			case failed == nil || err.Error() < failed.Error(): // always the same one, for the log
				failed = err
			}
			return nil
		})
	}
	_ = group.Wait() // The error is in failed.
	return all, failed
}

// note logs a problem once, and its end.
func (g *gauge) note(logger logr.Logger, failed error) {
	problem := ""
	if failed != nil {
		problem = failed.Error()
	}
	switch problem {
	case g.problem:
	case "":
		logger.Info("Metrics of pods in a target can be read again")
	default:
		logger.Info("Metrics of pods in a target cannot be read; these pods have no metrics here", "reason", problem)
	}
	g.problem = problem
}

// count adds samples to the counters of the containers that run, and forgets the others.
func (g *gauge) count(proxies map[string][]proxy, samples map[string]names, now time.Time) {
	counters := map[counted]*counter{}
	for namespace, pods := range proxies {
		for _, pod := range pods {
			of := samples[namespace][pod.delegate]
			for name, container := range running(pod.Pod) {
				key := counted{pod.UID, name}
				c := g.counters[key]
				if s, ok := of[name]; ok {
					c = c.add(s, container.started, now)
				}
				if c.fresh(now) {
					counters[key] = c
				}
			}
		}
	}
	g.counters = counters
}

// runningContainer is a container that runs.
type runningContainer struct {
	started time.Time // by the target's clock
	counts  bool      // The usage of the pod is not complete without it.
}

// running returns the containers of a pod that run. Containers that the target added are not in its status.
func running(pod *corev1.Pod) map[string]runningContainer {
	all := map[string]runningContainer{}
	add := func(statuses []corev1.ContainerStatus, counts bool) {
		for i := range statuses {
			if state := statuses[i].State.Running; state != nil {
				all[statuses[i].Name] = runningContainer{state.StartedAt.Time, counts}
			}
		}
	}
	add(pod.Status.ContainerStatuses, true)
	add(pod.Status.InitContainerStatuses, true)
	add(pod.Status.EphemeralContainerStatuses, false)
	return all
}

// sum returns the usage of the pods that are complete, and adds it to that of the node.
func (g *gauge) sum(proxies map[string][]proxy, now time.Time) *Node {
	node, total := &Node{}, Usage{}
	for _, pods := range proxies {
		for _, pod := range pods {
			containers := g.containers(pod.Pod)
			if len(containers) == 0 {
				continue
			}
			node.Pods = append(node.Pods, Pod{client.ObjectKeyFromObject(pod), pod.UID, containers})
			for _, usage := range containers {
				total.Cores += usage.Cores
				total.Memory += usage.Memory
			}
		}
	}
	if g.begun.IsZero() {
		g.begun, g.read, g.seconds = now.Add(-unknown), now.Add(-unknown), base
	}
	g.seconds += total.Cores * now.Sub(g.read).Seconds()
	g.read = now
	if len(node.Pods) > 0 {
		total.Begun, total.Time, total.Seconds = g.begun, now, g.seconds
		node.Usage = &total
	}
	return node
}

// containers returns the usages of a pod's containers, and none if one is missing that counts.
func (g *gauge) containers(pod *corev1.Pod) map[string]Usage {
	all := map[string]Usage{}
	for name, container := range running(pod) {
		c, ok := g.counters[counted{pod.UID, name}]
		switch {
		case ok:
			all[name] = Usage{
				Begun: c.begun, Time: c.seen, Seconds: c.seconds, Cores: c.last.cores, Memory: c.last.memory,
			}
		case container.counts:
			return nil
		}
	}
	return all
}
