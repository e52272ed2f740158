//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startsAgain is what a manager logs before it starts itself again.
const startsAgain = "The manager starts again"

// restarts returns how often the kubelet started a manager of c1 again, and how often the manager itself did.
func (w *world) restarts(ctx context.Context, pod *corev1.Pod) (byKubelet int32, byItself int, err error) {
	live := &corev1.Pod{}
	if err := w.c1.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return 0, 0, err
	}
	for _, status := range live.Status.ContainerStatuses {
		byKubelet += status.RestartCount
	}
	logs, err := runKubectl(ctx, "--context", "c1", "-n", managerNamespace, "logs", pod.Name)
	return byKubelet, strings.Count(logs, startsAgain), err
}

// startsItself waits until the manager has started itself once more than before, and is ready. The kubelet must not
// have started it. If the API server was away, Kubernetes makes all pods of the node not Ready. The kubelet corrects
// this when its watch of pods is back: its back-off is a minute then.
func (w *world) startsItself(t *testing.T, pod *corev1.Pod, byKubelet int32, byItself int) {
	t.Helper()
	within(t, patience, pod.Name+" to start itself again", func(ctx context.Context) error {
		kubelet, itself, err := w.restarts(ctx, pod)
		if err != nil {
			return err
		}
		if kubelet != byKubelet {
			t.Fatalf("the kubelet started %s again", pod.Name)
		}
		if itself <= byItself {
			return fmt.Errorf("it has not")
		}
		live := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil || ready(live) {
			return err
		}
		return errors.New("it is not ready")
	})
}

func TestAManagerThatLosesItsLeaseStartsItselfAgain(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	leader := w.leader(t)
	byKubelet, byItself, err := w.restarts(t.Context(), leader)
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: managerName}}
	patch(t, w.c1, lease, fmt.Sprintf(`{"spec": {"holderIdentity": "thief", "renewTime": %q}}`,
		time.Now().UTC().Format(metav1.RFC3339Micro)))
	w.startsItself(t, leader, byKubelet, byItself)
	within(t, time.Minute, "a manager to lead", func(ctx context.Context) error {
		if err := w.c1.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if holder := *lease.Spec.HolderIdentity; !strings.HasPrefix(holder, managerName) {
			return fmt.Errorf("%q holds the Lease", holder)
		}
		return nil
	})
	w.kubectl(t, "scale", "deployment/web", "--replicas=5")
	after := w.quiet(t, 5).uids()
	for uid, name := range before.uids() {
		if after[uid] == "" {
			t.Errorf("pod %s was replaced", name)
		}
	}
}

func TestAManagerWaitsWhileItsAPIServerIsAway(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	leader := w.leader(t)
	byKubelet, byItself, err := w.restarts(t.Context(), leader)
	if err != nil {
		t.Fatal(err)
	}
	start := w.stopAPIServer(t, "c1")
	// The leader ends without its Lease after 13 s. Five times this is more than the kubelet's first back-offs take.
	away := time.NewTimer(65 * time.Second)
	<-away.C
	start()
	back := time.Now()
	w.startsItself(t, leader, byKubelet, byItself)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	// The node may show what it showed before. Only a manager that leads brings a pod to c2. Until the kubelet has said
	// that the replica that started itself is not ready, the Service leads to its webhook, too.
	within(t, patience, "a pod to be accepted again", func(ctx context.Context) error {
		return w.c1.Create(ctx, w.pod("there", inTarget("c2", quick(podTemplate("there")))))
	})
	after := w.quiet(t, 5).uids()
	t.Logf("all is as before %s after the API server is back", time.Since(back).Round(time.Second))
	for uid, name := range before.uids() {
		if after[uid] == "" {
			t.Errorf("pod %s was replaced", name)
		}
	}
}
