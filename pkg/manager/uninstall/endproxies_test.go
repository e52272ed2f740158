package uninstall

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

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
				c := newCluster(t, test.timeout, objects...)
				c.Configuration.Roles.Target = new(false)
				if err := c.endProxies(t.Context(), !test.stopped); err != nil {
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
		c := newCluster(t, time.Minute, unbound())
		if err := c.endProxies(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		const want = "kubectl --context CONTEXT delete podchaperons -n shop " +
			"-l multicluster.admiralty.io/parent-uid=web-uid"
		if !strings.Contains(c.logged.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, c.logged.String())
		}
	})
}

func TestTheLogNamesThePodsThatRemain(t *testing.T) {
	bound := unbound()
	bound.Spec.NodeName = "admiralty-c2"
	ending, left := bound.DeepCopy(), bound.DeepCopy()
	ending.Name, left.Name = "ending", "left"
	for name, test := range map[string]struct {
		last proxies
		want []string // of the log, a line each
	}{
		"none":    {},
		"pending": {proxies{pending: []corev1.Pod{*unbound()}}, []string{`"pods"=["shop/web"]`}},
		"ending":  {proxies{ending: []corev1.Pod{*ending}}, []string{`"pods"=["shop/ending on admiralty-c2"]`}},
		"left":    {proxies{left: []corev1.Pod{*left}}, []string{`"pods"=["shop/left on admiralty-c2"]`}},
		"deleted": {last: proxies{remove: []corev1.Pod{*bound}}},
		"two ways": {
			proxies{ending: []corev1.Pod{*ending}, left: []corev1.Pod{*left}}, []string{"ending on", "left on"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, time.Minute)
			c.logProxies(test.last)
			lines := strings.Split(strings.TrimSuffix(c.logged.String(), "\n"), "\n")
			if len(test.want) == 0 && c.logged.Len() > 0 || len(test.want) > 0 && len(lines) != len(test.want) {
				t.Fatalf("logged:\n%s", c.logged.String())
			}
			for i, want := range test.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("no %s in the line\n%s", want, lines[i])
				}
			}
		})
	}
}

func TestTheLogNamesTheFirstPodsOnly(t *testing.T) {
	for count, more := range map[int]string{firstPods: "", firstPods + 1: "and 1 more", firstPods + 2: "and 2 more"} {
		pods := make([]corev1.Pod, count)
		got := names(pods)
		if more == "" && len(got) != firstPods ||
			more != "" && (len(got) != firstPods+1 || got[firstPods] != more) {
			t.Errorf("of %d pods, the log names %q", count, got)
		}
		if got := len(endCommands(pods)); got != firstPods {
			t.Errorf("of %d pods, the log has %d commands", count, got)
		}
	}
}

func TestWhoseDelegatesTheManagerCanEnd(t *testing.T) {
	proxy := unbound()
	proxy.Spec.NodeName = "admiralty-c2"
	for name, test := range map[string]struct {
		status  corev1.ConditionStatus
		manager bool
		ends    bool
	}{
		"its node is ready":           {corev1.ConditionTrue, true, true},
		"its node is not ready":       {corev1.ConditionFalse, true, false},
		"nobody hears of its node":    {corev1.ConditionUnknown, true, false},
		"no manager is there to ask":  {corev1.ConditionTrue, false, false},
		"neither a manager nor ready": {corev1.ConditionFalse, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, time.Minute, proxy.DeepCopy(), virtualNode(test.status))
			got, err := c.readProxies(t.Context(), test.manager)
			if err != nil || len(got.remove)+len(got.left) != 1 || len(got.remove) == 1 != test.ends {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
