//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
)

// lanes is how many pods start in c2 at the same time.
const lanes = 4

// A hostile ClusterTarget forges, floods and sends bombs. Meanwhile pods start in c2 as fast as before.
func TestAHostileTargetCostsOthersNothing(t *testing.T) {
	w := setUp(t)
	arrivals := w.watchArrivals(t)
	s := w.connectHostile(t)
	managers, memory := w.c1.managers(t), w.watchMemory(t)
	without := w.startPods(t, arrivals, func() bool { return true })
	others := w.othersObjects(t)

	var over atomic.Bool
	go func() {
		defer over.Store(true) // Fatalf ends this goroutine, too.
		w.attack(t, s, arrivals)
	}()
	during := w.startPods(t, arrivals, over.Load)

	for _, limit := range []struct {
		percent int
		times   time.Duration
		more    time.Duration
	}{
		{50, 2, 200 * time.Millisecond},
		{tail, 3, 2 * time.Second},
	} {
		is, was := percentile(during, limit.percent), percentile(without, limit.percent)
		t.Logf("p%d of %d pods: %s, before the attacks %s", limit.percent, len(during), is, was)
		if is > limit.times*was+limit.more {
			t.Errorf("p%d is %s, and was %s before the attacks", limit.percent, is, was)
		}
	}
	memory()
	if now := w.c1.managers(t); !maps.Equal(now, managers) {
		t.Errorf("managers were restarted or replaced: before %v, after %v", managers, now)
	}
	if now := w.othersObjects(t); !maps.Equal(now, others) {
		t.Errorf("objects of others changed: before %v, after %v", others, now)
	}
	w.says(t, "c2", v1alpha1.ReasonConnected)
}

// connectHostile connects c1 to a server on this machine that passes requests on to c2, with the rights of c1 there.
func (w *world) connectHostile(t *testing.T) *hostile.Server {
	t.Helper()
	secret := &corev1.Secret{}
	must(t, w.c1.Get(t.Context(), client.ObjectKey{Namespace: "admiralty", Name: "c2"}, secret))
	login, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["config"])
	must(t, err)
	s, err := hostile.New(login, w.machine(t), func(*http.Request) {})
	must(t, err)
	t.Cleanup(s.Close)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.CurrentContext = "x"
	kubeconfig.Contexts["x"] = &clientcmdapi.Context{Cluster: "x", AuthInfo: "x"}
	kubeconfig.Clusters["x"] = &clientcmdapi.Cluster{Server: s.Login.Host, InsecureSkipTLSVerify: true}
	kubeconfig.AuthInfos["x"] = &clientcmdapi.AuthInfo{Token: "any"}
	data, err := clientcmd.Write(*kubeconfig)
	must(t, err)
	name := types.NamespacedName{Namespace: w.namespace, Name: "hostile"}
	create(t, w.c1, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Data:       map[string][]byte{"config": data},
	})
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "hostile"}}
	target.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: name.Namespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: name.Name},
	}
	create(t, w.c1, target)
	t.Cleanup(s.Behave) // before the target's deletion
	w.says(t, "hostile", v1alpha1.ReasonConnected)
	return s
}

// machine returns the address of this machine that clusters reach.
func (w *world) machine(t *testing.T) string {
	t.Helper()
	address, err := url.Parse(w.c1.config.Host)
	must(t, err)
	connection, err := (&net.Dialer{}).DialContext(t.Context(), "udp", address.Host)
	must(t, err)
	defer func() { _ = connection.Close() }()
	host, _, err := net.SplitHostPort(connection.LocalAddr().String())
	must(t, err)
	return host
}

// attack forges PodChaperons without end, and then sends bombs.
func (w *world) attack(t *testing.T, s *hostile.Server, arrivals *arrivals) {
	t.Helper()
	var sent atomic.Int64
	s.Misbehave(func(out http.ResponseWriter, r *http.Request) bool {
		if hostile.IsWatch(r, "podchaperons") {
			w.flood(out, r, arrivals, &sent)
		}
		return hostile.IsWatch(r, "podchaperons")
	})
	eventually(t, "the manager to read 5,000 forged PodChaperons", func(context.Context) error {
		if n := sent.Load(); n < 5000 {
			return fmt.Errorf("it has read %d", n)
		}
		return nil
	})
	s.Misbehave(func(out http.ResponseWriter, r *http.Request) bool {
		bombed := hostile.IsPath(r, "/version") || strings.HasSuffix(r.URL.Path, "/podchaperons")
		if bombed {
			hostile.Bomb(out, http.StatusOK)
		}
		return bombed
	})
	w.says(t, "hostile", v1alpha1.ReasonOverBudget)
}

// flood says again and again that the delegates of all pods of the test have failed and are privileged ones.
func (w *world) flood(out http.ResponseWriter, r *http.Request, arrivals *arrivals, sent *atomic.Int64) {
	more := hostile.SendJSON(out, hostile.Listed)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for ; more && r.Context().Err() == nil; <-pause.C {
		for _, proxy := range arrivals.all() {
			object, err := json.Marshal(forged(proxy, sent.Add(1)))
			if err != nil {
				return
			}
			more = more && hostile.SendJSON(out, fmt.Sprintf(hostile.Invented, "ADDED", object))
		}
	}
}

// forged returns a PodChaperon that says that it is a proxy's.
func forged(proxy corev1.Pod, version int64) *v1alpha1.PodChaperon {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: proxy.Namespace, Name: proxy.Name + "-" + rand.String(5), UID: types.UID(rand.String(10)),
		ResourceVersion: fmt.Sprint(version),
		Labels:          map[string]string{v1alpha1.LabelParentUID: string(proxy.UID)},
		Annotations: map[string]string{
			v1alpha1.AnnotationParentNamespace: proxy.Namespace, v1alpha1.AnnotationParentName: proxy.Name,
		},
	}, Spec: proxy.Spec}
	chaperon.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon"}
	chaperon.Status.Phase, chaperon.Status.Reason = corev1.PodFailed, "Forged"
	return chaperon
}

// arrivals are the pods of c1 that run, or ran, with the times when this was seen.
type arrivals struct {
	mu   sync.Mutex // guards ran and waiting
	ran  []corev1.Pod
	wait map[string]chan time.Time // by name
}

func (a *arrivals) all() []corev1.Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.ran[max(0, len(a.ran)-lanes):])
}

func (a *arrivals) expect(name string) chan time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait[name] = make(chan time.Time, 1)
	return a.wait[name]
}

func (a *arrivals) see(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if waits := a.wait[pod.Name]; waits != nil && pod.Status.Phase != corev1.PodPending {
		waits <- time.Now()
		delete(a.wait, pod.Name)
		a.ran = append(a.ran, *pod)
	}
}

// watchArrivals sees pods until the test ends. API servers end watches as they like, those of slow readers, say.
func (w *world) watchArrivals(t *testing.T) *arrivals {
	t.Helper()
	a := &arrivals{wait: map[string]chan time.Time{}}
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			w.seeArrivals(ctx, a)
		}
	}()
	return a
}

// seeArrivals sees pods until a watch ends.
func (w *world) seeArrivals(ctx context.Context, a *arrivals) {
	pods := &corev1.PodList{}
	if w.c1.List(ctx, pods, client.InNamespace(w.namespace)) != nil {
		return
	}
	for i := range pods.Items {
		a.see(&pods.Items[i])
	}
	from := &client.ListOptions{
		Namespace: w.namespace, Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion},
	}
	events, err := w.c1.Watch(ctx, &corev1.PodList{}, from)
	if err != nil {
		return
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if pod, is := event.Object.(*corev1.Pod); is {
			a.see(pod)
		}
	}
}

// startPods starts pods in c2, and deletes them as soon as they run: as many as trips, and more until enough returns
// true. It returns how long each took from its creation until it showed that it ran.
func (w *world) startPods(t *testing.T, a *arrivals, enough func() bool) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(took)
	}
	var group sync.WaitGroup
	for range lanes {
		group.Go(func() {
			for (count() < trips || !enough()) && !t.Failed() {
				one := w.startPod(t, a)
				mu.Lock()
				took = append(took, one)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return took
}

// startPod returns how long a pod took.
func (w *world) startPod(t *testing.T, a *arrivals) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pod := w.pod("trip-"+rand.String(8), inTarget("c2", podTemplate("trip")))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	arrived, began := a.expect(pod.Name), time.Now()
	if err := w.c1.Create(ctx, pod); err != nil {
		t.Errorf("creating a pod: %v", err)
		return 0
	}
	select {
	case at := <-arrived:
		err := w.c1.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err != nil || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s: %s: %v", pod.Name, pod.Status.Phase, pod.Status.Reason, err)
		}
		if err := w.c1.Delete(ctx, pod); err != nil {
			t.Errorf("deleting a pod: %v", err)
		}
		return at.Sub(began)
	case <-ctx.Done():
		t.Errorf("pod %s does not run", pod.Name)
		return 0
	}
}

func percentile(took []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)*percent-1)/100]
}

// watchMemory watches the memory of c1's managers, as the kubelet reports it. The function returned fails the test if a
// manager had more than its limit less a tenth.
func (w *world) watchMemory(t *testing.T) (stop func()) {
	t.Helper()
	managers, err := w.c1.managerPods(t.Context())
	must(t, err)
	limit := managers[0].Spec.Containers[0].Resources.Limits.Memory().Value()
	ctx, cancel := context.WithCancel(t.Context())
	ended, top := make(chan struct{}), int64(0)
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for ctx.Err() == nil {
			if used, err := w.memory(ctx); err == nil {
				top = max(top, used)
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		t.Logf("a manager of c1 had at most %d MiB of %d", top>>20, limit>>20)
		if top == 0 || top > limit/10*9 {
			t.Errorf("a manager of c1 had %d bytes of %d", top, limit)
		}
	}
}

// memory returns the memory of the manager of c1 that has most.
func (w *world) memory(ctx context.Context) (most int64, err error) {
	out, err := runKubectl(ctx, "--context", "c1", "get", "--raw", "/api/v1/nodes/c1-node/proxy/stats/summary")
	if err != nil {
		return 0, err
	}
	var summary struct {
		Pods []struct {
			PodRef     struct{ Namespace, Name string }
			Containers []struct {
				Memory struct{ WorkingSetBytes int64 }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &summary); err != nil {
		return 0, fmt.Errorf("reading the statistics of the kubelet: %w", err)
	}
	for _, pod := range summary.Pods {
		if pod.PodRef.Namespace == releaseNamespace && strings.HasPrefix(pod.PodRef.Name, release) {
			for _, container := range pod.Containers {
				most = max(most, container.Memory.WorkingSetBytes)
			}
		}
	}
	return most, nil
}

// othersObjects returns the versions of objects of c1 in namespaces without elected pods.
func (w *world) othersObjects(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, kind := range []string{"Pod", "ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim"} {
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind + "List"})
			must(t, w.c1.List(t.Context(), list, client.InNamespace(namespace)))
			for i := range list.Items {
				versions[kind+" "+namespace+"/"+list.Items[i].Name] = list.Items[i].ResourceVersion
			}
		}
	}
	return versions
}
