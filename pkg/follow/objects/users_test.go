package objects

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
)

// proxy returns a proxy, as the manager's cache has it, that refers to Secrets of these names.
func proxy(node string, phase corev1.PodPhase, secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
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
	other := proxy("c2", corev1.PodRunning, "db")
	other.Spec.SchedulerName = "default-scheduler"
	for name, test := range map[string]struct {
		pod                *corev1.Pod
		needed, referredTo bool
	}{
		"a proxy in the target needs the object":                   {proxy("c2", corev1.PodRunning, "db"), true, true},
		"a proxy that is not placed yet only refers to the object": {proxy("", corev1.PodPending, "db"), false, true},
		"a proxy in another target only refers to the object":      {proxy("c3", corev1.PodRunning, "db"), false, true},
		"a proxy that refers to other objects refers to the kind": {
			proxy("c2", corev1.PodRunning, "other"), false, true,
		},
		"a proxy that succeeded does not count": {
			proxy("c2", corev1.PodSucceeded, "db"), false, false,
		},
		"a proxy that failed does not count":    {proxy("c2", corev1.PodFailed, "db"), false, false},
		"a pod that is no proxy does not count": {other, false, false},
		"no pod does not count":                 {nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUsers()
			u.replaceUsage(usage{}, usageOf(test.pod))
			if got := u.isNeeded("c2", secret("db")); got != test.needed {
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
		"c2",
		"c3",
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
