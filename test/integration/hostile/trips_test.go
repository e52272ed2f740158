package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	// lanes is how many pods of each source are placed at the same time.
	lanes = 4
	// late is how long a trip may take at most.
	late = 2 * time.Minute
)

// road leads pods of both sources to the honest target. It plays the target's manager.
type road struct {
	namespace string
	arrivals  sync.Map // functions by the names of proxies, to call when the proxy shows the status of its delegate
	without   *times   // The times without any attack. Nil before they were taken.
}

func newRoad(t env.T) *road {
	t.Helper()
	r := &road{namespace: env.Namespace(t, env.Enabled(), c1, c2)}
	env.Create(t, control, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace, Labels: env.Enabled()}})
	watch(t, c1, r.namespace, r.arrive)
	watch(t, control, r.namespace, r.arrive)
	watch(t, c2, r.namespace, func(chaperon *v1alpha1.PodChaperon) {
		if chaperon.Status.Message == "" {
			go start(t, chaperon)
		}
	})
	return r
}

// watch calls see with each object of a namespace, whenever it changes, until the test ends.
func watch[T any, O interface {
	*T
	client.Object
}](t env.T, in *env.Cluster, namespace string, see func(O)) {
	t.Helper()
	objects, err := cache.New(in.Config, cache.Options{
		Scheme: env.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	env.Must(t, err)
	informer, err := objects.GetInformer(t.Context(), O(new(T)), cache.BlockUntilSynced(false))
	env.Must(t, err)
	seen := func(object any) {
		if o, is := object.(O); is {
			see(o)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: seen, UpdateFunc: func(_, object any) { seen(object) },
	})
	env.Must(t, err)
	env.Run(t, objects.Start)
	env.WaitForCache(t, objects)
}

// start says that the delegate of a PodChaperon is scheduled.
func start(t env.T, chaperon *v1alpha1.PodChaperon) {
	status := corev1.PodStatus{
		Phase: corev1.PodPending, Message: chaperon.Labels[v1alpha1.LabelParentUID],
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		err = c2.Client.Status().Patch(t.Context(), chaperon.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil && t.Context().Err() == nil {
		t.Errorf("changing the status of a PodChaperon: %v", err)
	}
}

// arrive ends the trip of a proxy that is bound and shows the status of its delegate.
func (r *road) arrive(proxy *corev1.Pod) {
	if proxy.Spec.NodeName == "" || proxy.Status.Message != string(proxy.UID) {
		return
	}
	if arrived, is := r.arrivals.LoadAndDelete(proxy.Name); is {
		arrived.(func())()
	}
}

// travel places pods of both sources, each pod of c1 beside one of the control group: as many as trips, and more until
// enough returns true. The pods stay, because deleting them would cost more time than placing them.
func (r *road) travel(t *testing.T, enough func() bool) *times {
	t.Helper()
	took := &times{}
	group, ctx := errgroup.WithContext(t.Context())
	for lane := range lanes {
		group.Go(func() error {
			for took.pairs() < trips || (lane == 0 && !enough()) {
				if err := r.pair(ctx, took); err != nil {
					return err
				}
			}
			return nil
		})
	}
	env.Must(t, group.Wait())
	return took
}

// pair places a pod of each source at the same time.
func (r *road) pair(ctx context.Context, took *times) error {
	var pair [2]time.Duration
	var group errgroup.Group
	for i, from := range []*env.Cluster{c1, control} {
		group.Go(func() (err error) {
			pair[i], err = r.trip(ctx, from)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took.add(pair)
	return nil
}

// trip returns how long it takes until a new pod is bound and shows the status of its delegate.
func (r *road) trip(ctx context.Context, from *env.Cluster) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	proxy := env.Proxy(r.namespace, "web-"+rand.String(10))
	proxy.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	arrived := make(chan time.Time, 1)
	r.arrivals.Store(proxy.Name, func() { arrived <- time.Now() })
	began := time.Now()
	if err := from.Client.Create(ctx, proxy); err != nil {
		return 0, err
	}
	select {
	case at := <-arrived:
		return at.Sub(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting until %s of %s is placed: %w", proxy.Name, from.Name, ctx.Err())
	}
}

// times are how long the trips of c1 took, and those of the control group at the same time.
type times struct {
	mu   sync.Mutex // guards took
	took [2][]time.Duration
}

func (s *times) add(pair [2]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, took := range pair {
		s.took[i] = append(s.took[i], took)
	}
}

func (s *times) pairs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.took[0])
}

// percentile returns a percentile of the times of c1, and that of the control group.
func (s *times) percentile(percent int) (c1, control time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := func(took []time.Duration) time.Duration {
		sorted := slices.Sorted(slices.Values(took))
		return sorted[(len(sorted)*percent-1)/100]
	}
	return at(s.took[0]), at(s.took[1])
}

// limits of the times of c1 during an attack. Both sources are in the same process at the same time. So both feel what
// an attack does to the process and the machine: the CPU that the hostile server burns, the collector of garbage, and
// other programs. Without an attack their percentiles differ by a quarter at most, also on two cores with a load of 17.
var limits = []struct {
	percent, times int
	more           time.Duration
	// before is for the comparison with the times without an attack. Programs beside the tests pause them for seconds.
	before time.Duration
}{
	{percent: 50, times: 2, more: 20 * time.Millisecond, before: time.Second},
	{percent: tail, times: 3, more: 250 * time.Millisecond, before: 5 * time.Second},
	// More pods than trips are placed during long attacks.
	{percent: 100, times: 3, more: 2 * time.Second, before: 5 * time.Second},
}

// expectAsFast compares c1 with the control group, and, for harm that hits the whole process, with the times
// without an attack. These were taken earlier, and the hostile server spends CPU of the same process, so this limit is
// generous.
func (s *times) expectAsFast(t *testing.T, without *times) {
	t.Helper()
	for _, limit := range limits {
		c1, control := s.percentile(limit.percent)
		before, _ := without.percentile(limit.percent)
		t.Logf("p%d of %d: %s, of the control group %s, before the attack %s",
			limit.percent, s.pairs(), c1, control, before)
		if c1 > time.Duration(limit.times)*control+limit.more {
			t.Errorf("p%d is %s, and that of a source without hostile targets %s", limit.percent, c1, control)
		}
		if c1 > 10*before+limit.before {
			t.Errorf("p%d is %s, and was %s before the attack", limit.percent, c1, before)
		}
	}
}
