package uninstall

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// newSource returns a run in a source with these objects, and what it logs. Only a test in a bubble has its time.
func newSource(t *testing.T, timeout time.Duration, objects ...client.Object) (*run, *strings.Builder) {
	t.Helper()
	index := func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.SchedulerName} //nolint:forcetypeassert // It is one.
	}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.schedulerName", index).Build()
	roles := configv1alpha1.Roles{Source: new(true), Target: new(false)}
	logged := &strings.Builder{}
	return &run{
		Options: Options{
			Configuration: &configv1alpha1.Configuration{Roles: roles}, Pods: End, Timeout: timeout, Webhook: "pods",
		},
		client: c, clock: clock.RealClock{}, until: time.Now().Add(timeout),
		log: funcr.New(func(_, line string) { logged.WriteString(line + "\n") }, funcr.Options{}),
	}, logged
}

func unbound(owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web-uid", OwnerReferences: owners},
		Spec:       corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName},
	}
}

func TestTheManagerHasTimeToEndThePodChaperonsOfProxiesWithoutANode(t *testing.T) {
	controlled := metav1.OwnerReference{Kind: "ReplicaSet", Name: "web", Controller: new(true)}
	for name, test := range map[string]struct {
		proxy   *corev1.Pod // if there is one
		stopped bool        // no manager runs
		timeout time.Duration
		want    time.Duration
	}{
		"a proxy is deleted": {proxy: unbound(controlled), timeout: time.Minute, want: unboundEnd},
		"but not more time than there is": {
			proxy: unbound(controlled), timeout: 20 * time.Second, want: 10 * time.Second,
		},
		"nobody ends its PodChaperon": {
			proxy: unbound(controlled), timeout: time.Minute, stopped: true, want: interval,
		},
		"a proxy stays":  {proxy: unbound(), timeout: time.Minute},
		"there are none": {timeout: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var objects []client.Object
				if test.proxy != nil {
					objects = append(objects, test.proxy.DeepCopy())
				}
				began := time.Now()
				r, _ := newSource(t, test.timeout, objects...)
				if err := r.endProxies(t.Context(), !test.stopped); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %s, want %s", took, test.want)
				}
			})
		})
	}
}

func TestTheLogSaysHowToEndWhatPodsThatStayMayHaveInTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logged := newSource(t, time.Minute, unbound())
		if err := r.endProxies(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		const want = "kubectl --context CONTEXT delete podchaperons -n shop " +
			"-l multicluster.admiralty.io/parent-uid=web-uid"
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, logged)
		}
	})
}
