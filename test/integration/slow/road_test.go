package slow

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	// lanes is how many pods of each source are placed at the same time.
	lanes = 2
	// enough is how many pairs of pods must have been placed for their times to count.
	enough = 50
	// late is how long a trip may take at most.
	late = time.Minute
)

// road leads pods of both sources to c2. It plays the target's manager.
type road struct {
	namespace string
	arrivals  sync.Map // functions by the names of proxies, to call when the proxy shows the status of its delegate
}

func newRoad(t env.T) *road {
	t.Helper()
	r := &road{namespace: env.Namespace(t, env.Enabled(), c1, c2)}
	env.Create(t, control, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.namespace, Labels: env.Enabled()}})
	watch(t, c1, r.namespace, r.arrive)
	watch(t, control, r.namespace, r.arrive)
	watch(t, c2, r.namespace, func(chaperon *v1alpha1.PodChaperon) {
		if chaperon.Status.Message == "" {
			go schedule(t, chaperon)
		}
	})
	return r
}

// watch calls see with each object of a namespace, or of the cluster, whenever it changes, until the test ends.
func watch[T any, O interface {
	*T
	client.Object
}](t env.T, in *env.Cluster, namespace string, see func(O)) {
	t.Helper()
	options := cache.Options{Scheme: env.Scheme()}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	objects, err := cache.New(in.Config, options)
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

// schedule says that the delegate of a PodChaperon is scheduled.
func schedule(t env.T, chaperon *v1alpha1.PodChaperon) {
	status := corev1.PodStatus{
		Phase: corev1.PodPending, Message: chaperon.Labels[v1alpha1.LabelParentUID],
		Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}},
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err == nil {
		err = c2.Client.Status().Patch(t.Context(), chaperon.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	}
	if client.IgnoreNotFound(err) != nil && t.Context().Err() == nil {
		t.Errorf("changing the status of a PodChaperon: %v", err)
	}
}

// arrive ends the trip of a proxy that is bound and shows the status of its delegate.
func (r *road) arrive(proxy *corev1.Pod) {
	if proxy.Spec.NodeName == "" || proxy.Status.Message != string(proxy.UID) {
		return
	}
	if arrived, is := r.arrivals.LoadAndDelete(proxy.Name); is {
		arrived.(func(string))(proxy.Spec.NodeName)
	}
}

// travel begins to place pods of both sources in the healthy target, each pod of c1 beside one of the control group. It
// goes on until ctx ends.
func (r *road) travel(ctx context.Context, t *testing.T) *times {
	t.Helper()
	travelling, failed := errgroup.WithContext(t.Context())
	took := &times{travelling: travelling, failed: failed.Done()}
	for range lanes {
		travelling.Go(func() error {
			for ctx.Err() == nil {
				if err := r.pair(t.Context(), took); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return took
}

// pair places a pod of each source at the same time.
func (r *road) pair(ctx context.Context, took *times) error {
	var pair [2]time.Duration
	var group errgroup.Group
	for i, from := range []*env.Cluster{c1, control} {
		group.Go(func() (err error) {
			_, pair[i], err = r.trip(ctx, from, translate.VirtualNodeName(healthy))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took.add(pair)
	return nil
}

// proxy returns a pod that may go to any node, if none is given.
func (r *road) proxy(node string) *corev1.Pod {
	proxy := env.Proxy(r.namespace, "web-"+rand.String(10))
	// No controller removes the taint of nodes that are new.
	proxy.Spec.Tolerations = []corev1.Toleration{
		{Key: v1alpha1.LabelNodeProvider, Operator: corev1.TolerationOpExists},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists},
	}
	if node != "" {
		proxy.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	return proxy
}

// trip returns where a new pod went, and how long it took until it was bound and showed the status of its delegate. It
// may go to any node, if none is given.
func (r *road) trip(ctx context.Context, from *env.Cluster, node string) (string, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	proxy := r.proxy(node)
	arrived := make(chan string, 1)
	r.arrivals.Store(proxy.Name, func(node string) { arrived <- node })
	began := time.Now()
	if err := from.Client.Create(ctx, proxy); err != nil {
		return "", 0, err
	}
	select {
	case node = <-arrived:
		return node, time.Since(began), nil
	case <-ctx.Done():
		err := from.Client.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(proxy), proxy)
		return "", 0, fmt.Errorf("waiting until %s of %s is placed: %w; it is on %q: %v",
			proxy.Name, from.Name, errors.Join(ctx.Err(), err), proxy.Spec.NodeName, proxy.Status.Conditions)
	}
}

// times are how long the trips of c1 took, and those of the control group at the same time.
type times struct {
	travelling *errgroup.Group
	failed     <-chan struct{} // is closed when a trip has failed

	mu   sync.Mutex // guards took
	took [2][]time.Duration
}

// waitForEnough waits until enough pairs of pods were placed, or a trip has failed. How many there are in a time
// depends on the machine.
func (s *times) waitForEnough(t *testing.T) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-s.failed:
			return nil // expectAsFast says why.
		default:
		}
		if pairs := len(s.took[0]); pairs < enough {
			return fmt.Errorf("only %d pairs of pods were placed", pairs)
		}
		return nil
	})
}

func (s *times) add(pair [2]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, took := range pair {
		s.took[i] = append(s.took[i], took)
	}
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

// expectAsFast compares c1 with the control group, when the last pods have arrived. All that the machine does concerns
// both.
func (s *times) expectAsFast(t *testing.T) {
	t.Helper()
	env.Must(t, s.travelling.Wait())
	for _, limit := range []struct {
		percent, times int
		more           time.Duration
	}{
		{percent: 50, times: 2, more: 20 * time.Millisecond},
		{percent: 99, times: 3, more: 500 * time.Millisecond},
	} {
		c1, control := s.percentile(limit.percent)
		t.Logf("p%d of %d: %s, of the control group %s", limit.percent, len(s.took[0]), c1, control)
		if c1 > time.Duration(limit.times)*control+limit.more {
			t.Errorf("p%d is %s, and that of a source without targets in trouble %s", limit.percent, c1, control)
		}
	}
}
