package limits

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The source has a pod in each of many namespaces. A manager that starts anew watches each of them, and is ready within
// seconds.
func TestManyNamespaces(t *testing.T) {
	first := runSource(t)
	began := time.Now()
	createMany(t)
	waitManyRunning(t)
	t.Logf("%d pods, each in a namespace of its own, run after %s", many, time.Since(began))
	first.stop()
	waitMany(t, func() (int, error) { return max(0, int(watchesOfChaperons(t))-many/2), nil })

	heap := heapInUse()
	began = time.Now()
	runSource(t).waitEngaged(t)
	took := time.Since(began)
	watches := watchesOfChaperons(t)
	grown := heapInUse() - heap
	t.Logf("ready after %s, with %g watches, and %d KiB for each namespace", took, watches, grown/many>>10)
	if watches < many || watches > many+10 {
		t.Errorf("there are %g watches of PodChaperons, want one for each of %d namespaces", watches, many)
	}
	if grown > many*heapOfNamespace+fixedHeap {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
	waitManyRunning(t)
	deleteMany(t)
}

const (
	// heapOfNamespace is the memory that a namespace may cost, and fixedHeap that of everything else.
	heapOfNamespace = 256 << 10
	fixedHeap       = 64 << 20
	// manyLabel selects the pods of this test.
	manyLabel = "many"
)

// createMany creates namespaces, and a proxy in each that goes to c2.
func createMany(t *testing.T) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(10)
	for i := range many {
		group.Go(func() error { return createOne(t.Context(), fmt.Sprintf("many-%d", i)) })
	}
	env.Must(t, group.Wait())
}

func createOne(ctx context.Context, namespace string) error {
	proxy := env.Proxy(namespace, "web", func(pod *corev1.Pod) {
		pod.Labels = map[string]string{manyLabel: ""}
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodeOf(c2)}
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	meta := metav1.ObjectMeta{Name: namespace, Labels: env.Enabled()}
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "default")}
	return errors.Join(
		c2.Client.Create(ctx, &corev1.Namespace{ObjectMeta: meta}), c2.Client.Create(ctx, account),
		c1.Client.Create(ctx, &corev1.Namespace{ObjectMeta: meta}), c1.Client.Create(ctx, proxy),
	)
}

// deleteMany deletes the proxies of createMany. Their PodChaperons must go.
func deleteMany(t *testing.T) {
	t.Helper()
	pods := &corev1.PodList{}
	env.Must(t, c1.Client.List(t.Context(), pods, client.HasLabels{manyLabel}))
	for i := range pods.Items {
		env.Delete(t, c1, &pods.Items[i])
	}
	waitMany(t, func() (int, error) {
		left := &v1alpha1.PodChaperonList{}
		err := c2.Client.List(t.Context(), left)
		return len(left.Items), err
	})
}

func waitManyRunning(t *testing.T) {
	t.Helper()
	waitMany(t, func() (int, error) {
		pods, waiting := &corev1.PodList{}, many
		err := c1.Client.List(t.Context(), pods, client.HasLabels{manyLabel})
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				waiting--
			}
		}
		return waiting, err
	})
}

// waitMany waits until count returns that nothing is left.
func waitMany(t *testing.T, count func() (int, error)) {
	t.Helper()
	for ends := time.Now().Add(patience); ; {
		left, err := count()
		env.Must(t, err)
		if left == 0 {
			return
		}
		if time.Now().After(ends) {
			t.Fatalf("%d are left", left)
		}
		env.Must(t, pause(t.Context()))
	}
}

// pause waits until it makes sense to look at many objects again.
func pause(ctx context.Context) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// waitEngaged waits until both targets are engaged.
func (m *manager) waitEngaged(t *testing.T) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		for _, cluster := range []*env.Cluster{c2, c3} {
			target, ok := m.registry.ByKey(client.ObjectKey{Name: cluster.Name})
			if !ok || !target.Reachable() {
				return fmt.Errorf("%s is not engaged", cluster.Name)
			}
		}
		return nil
	})
}

// watchesOfChaperons returns how many watches of PodChaperons the API server of c2 serves.
func watchesOfChaperons(t *testing.T) float64 {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(c2.Config)
	env.Must(t, err)
	all, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	env.Must(t, err)
	sum := 0.0
	for line := range strings.Lines(string(all)) {
		name, value, _ := strings.Cut(line, "} ")
		if strings.HasPrefix(name, "apiserver_longrunning_requests{") &&
			strings.Contains(name, `resource="podchaperons"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			env.Must(t, err)
			sum += n
		}
	}
	return sum
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
