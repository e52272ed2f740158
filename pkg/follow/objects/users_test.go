package objects

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
)

// proxy returns a proxy, as the manager's cache has it, that refers to Secrets of these names.
func proxy(node string, phase corev1.PodPhase, secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web",
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName,
			NodeName:      node,
			RestartPolicy: corev1.RestartPolicyAlways,
		},
		Status: corev1.PodStatus{Phase: phase},
	}
	for _, name := range secrets {
		pod.Spec.Volumes = append(
			pod.Spec.Volumes,
			corev1.Volume{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}},
		)
	}
	cached, err := podcache.Transform(pod)
	if err != nil {
		panic(err)
	}
	return cached.(*corev1.Pod)
}

func secret(name string) objectKey {
	return objectKey{"shop", needs.Ref{Resource: needs.Secrets, Name: name}}
}

func TestLivingProxiesCount(t *testing.T) {
	other := proxy("admiralty-c2", corev1.PodRunning, "db")
	other.Spec.SchedulerName = "default-scheduler"
	notAdmitted := proxy("", corev1.PodPending, "db")
	delete(notAdmitted.Annotations, v1alpha1.AnnotationElect)
	for name, test := range map[string]struct {
		pod                *corev1.Pod
		needed, referredTo bool
	}{
		"a proxy in the target needs the object": {
			proxy("admiralty-c2", corev1.PodRunning, "db"), true, true,
		},
		"a proxy that is not placed yet only refers to the object": {proxy("", corev1.PodPending, "db"), false, true},
		"a proxy in another target only refers to the object": {
			proxy("admiralty-c3", corev1.PodRunning, "db"), false, true,
		},
		"a proxy that refers to other objects refers to the kind": {
			proxy("admiralty-c2", corev1.PodRunning, "other"), false, true,
		},
		"a proxy that succeeded does not count": {
			proxy("admiralty-c2", corev1.PodSucceeded, "db"), false, false,
		},
		"a proxy that failed does not count": {
			proxy("admiralty-c2", corev1.PodFailed, "db"), false, false,
		},
		"a pod that is no proxy does not count": {other, false, false},
		"a pod on another node does not count": {
			proxy("node", corev1.PodRunning, "db"), false, false,
		},
		"a pod that was not admitted and is not placed does not count": {notAdmitted, false, false},
		"no pod does not count": {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUsers()
			u.replaceUsage(usage{}, usageOf(test.pod))
			if got := u.isNeeded("admiralty-c2", secret("db")); got != test.needed {
				t.Errorf("needed: got %t, want %t", got, test.needed)
			}
			if got := u.isReferredTo(secret("db").collection()); got != test.referredTo {
				t.Errorf("referred to: got %t, want %t", got, test.referredTo)
			}
		})
	}
}

func TestNothingIsLeftOfProxiesThatAreGone(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	nodes, phases := []string{
		"",
		"admiralty-c2",
		"admiralty-c3",
	}, []corev1.PodPhase{
		corev1.PodPending,
		corev1.PodRunning,
		corev1.PodSucceeded,
	}
	pods := make([]*corev1.Pod, 10)
	u := newUsers()
	for range 1000 {
		i := random.IntN(len(pods))
		var next *corev1.Pod
		if random.IntN(4) > 0 {
			next = proxy(nodes[random.IntN(3)], phases[random.IntN(3)], []string{"a", "b", "c"}[:random.IntN(4)]...)
		}
		u.replaceUsage(usageOf(pods[i]), usageOf(next))
		pods[i] = next
		for _, node := range nodes[1:] {
			want := false
			for _, pod := range pods {
				c := usageOf(pod)
				want = want || c.node == node && len(c.needs) > 0
			}
			if got := len(u.neededOn(node)) > 0; got != want {
				t.Fatalf("something is needed on %s: got %t, want %t", node, got, want)
			}
		}
	}
	for _, pod := range pods {
		u.replaceUsage(usageOf(pod), usage{})
	}
	if diff := cmp.Diff([2]int{}, [2]int{len(u.onNodes), len(u.everywhere)}); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

func TestOnlyBoundProxiesOfEnabledNamespacesNeedObjects(t *testing.T) {
	for name, test := range map[string]struct {
		target  types.NamespacedName
		enabled string
		want    bool
	}{
		"an enabled namespace that the target is allowed":    {types.NamespacedName{Name: "c2"}, "shop", true},
		"an enabled namespace, and a target in it":           {types.NamespacedName{Namespace: "shop"}, "shop", true},
		"a namespace that is not enabled":                    {types.NamespacedName{Name: "c2"}, "other", false},
		"a target of another namespace, whoever bound to it": {types.NamespacedName{Namespace: "evil"}, "shop", false},
		"a target of its own namespace, which is not enabled": {
			types.NamespacedName{Namespace: "shop"}, "other", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, w := leading(t, func() error { return nil })
			l.target = &engage.Target{Key: test.target, NodeName: "admiralty-c2"}
			l.exists(t, w, "1", "new")
			enable(t, l.follower, test.enabled)
			if got := l.isNeeded(secret("db")); got != test.want {
				t.Errorf("needed: got %t, want %t", got, test.want)
			}
			if got := l.outdated(secret("db")); got != test.want {
				t.Errorf("written: got %t, want %t", got, test.want)
			}
		})
	}
}

func TestANamespaceThatBecomesEnabledIsFollowed(t *testing.T) {
	l, w := leading(t, func() error { return nil })
	l.exists(t, w, "1", "new")
	l.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[objectKey]())
	defer l.queue.ShutDown()
	l.follower.links.Set(t.Context(), l.target, l)
	l.follower.ensure = func(collection) *collectionWatch { return w }
	l.follower.namespaces = newEnabledNamespaces(l.follower.namespaceEnabled)
	enable(t, l.follower, "other")
	if l.queue.Len() > 0 {
		t.Error("an object of a namespace that is not enabled is copied")
	}
	enable(t, l.follower, "shop")
	if got := l.queue.Len(); got != 1 {
		t.Errorf("%d objects are copied, want 1", got)
	}
}

// enable plays the API server: it lists one enabled namespace.
func enable(t *testing.T, f *Follower, namespace string) {
	t.Helper()
	listed := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	must(t, f.namespaces.Replace([]any{listed}, ""))
}
