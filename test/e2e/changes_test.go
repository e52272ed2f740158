//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// eventuallyPods waits until a proxy in c1 and its delegate in c2 are as wanted.
func (w *world) eventuallyPods(t *testing.T, name, what string, check func(proxy, delegate *corev1.Pod) error) {
	t.Helper()
	eventually(t, what, func(ctx context.Context) error {
		proxy, delegate := &corev1.Pod{}, &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, proxy); err != nil {
			return err
		}
		key := client.ObjectKey{Namespace: w.namespace, Name: translate.DelegateName(proxy)}
		if err := w.c2.Get(ctx, key, delegate); err != nil {
			return err
		}
		return check(proxy, delegate)
	})
}

// observed says whether the proxy says, as a kubelet does, that its whole spec counts.
func observed(proxy *corev1.Pod) error {
	if proxy.Status.ObservedGeneration != proxy.Generation {
		return fmt.Errorf("generation %d, observed %d", proxy.Generation, proxy.Status.ObservedGeneration)
	}
	return nil
}

func TestChangesReachTheDelegate(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.pod("web", inTarget("c2", podTemplate("web"))))
	w.reaches(t, "web", corev1.PodRunning)

	w.kubectl(t, "label", "pod", "web", "quarantine=yes", "app-")
	w.kubectl(t, "annotate", "pod", "web", "example.com/note=changed")
	w.eventuallyPods(t, "web", "labels and annotations to change", func(_, delegate *corev1.Pod) error {
		if delegate.Labels["multicluster.admiralty.io/quarantine"] != "yes" ||
			delegate.Labels["multicluster.admiralty.io/app"] != "" ||
			delegate.Annotations["example.com/note"] != "changed" {
			return fmt.Errorf("labels %v, annotations %v", delegate.Labels, delegate.Annotations)
		}
		return nil
	})

	w.kubectl(t, "set", "image", "pod/web", "whoami=localhost/whoami:missing")
	w.eventuallyPods(t, "web", "the missing image to be seen", func(proxy, _ *corev1.Pod) error {
		statuses := proxy.Status.ContainerStatuses
		if len(statuses) != 1 || statuses[0].State.Waiting == nil {
			return fmt.Errorf("statuses %v", statuses)
		}
		return observed(proxy)
	})
	w.kubectl(t, "set", "image", "pod/web", "whoami="+image)
	w.eventuallyPods(t, "web", "the container to run again", func(proxy, _ *corev1.Pod) error {
		statuses := proxy.Status.ContainerStatuses
		if len(statuses) != 1 || statuses[0].State.Running == nil || statuses[0].RestartCount == 0 {
			return fmt.Errorf("statuses %v", statuses)
		}
		return observed(proxy)
	})
}

// A quarantine: the pod gets no requests any more, and runs on.
func TestALabelTakesAPodOutOfItsServiceInEachCluster(t *testing.T) {
	w := setUp(t)
	w.service(t, "web")
	for _, name := range []string{"good", "suspect"} {
		create(t, w.c1, w.pod(name, inTarget("c2", podTemplate("web"))))
	}
	create(t, w.c1, w.pod("client", inTarget("c2", podTemplate("client", "sleep", "infinity"))))
	_, client := w.delegateOf(t, w.reaches(t, "client", corev1.PodRunning))
	before := w.reaches(t, "suspect", corev1.PodRunning)
	for _, c := range w.all() {
		w.hasEndpoints(t, c, "web", 2)
	}
	w.hears(t, w.c2, client.Name, []string{"good", "suspect"})

	w.kubectl(t, "label", "pod", "suspect", "app=apart", "--overwrite")
	for _, c := range w.all() {
		w.hasEndpoints(t, c, "web", 1)
	}
	w.hears(t, w.c2, client.Name, []string{"good"})
	if after := w.reaches(t, "suspect", corev1.PodRunning); after.UID != before.UID || !ready(after) {
		t.Errorf("the pod does not run on: %v", after.Status)
	}

	w.kubectl(t, "label", "pod", "suspect", "app=web", "--overwrite")
	w.hears(t, w.c2, client.Name, []string{"good", "suspect"})
}

func TestDebugRunsInTheDelegate(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.pod("web", inTarget("c2", podTemplate("web"))))
	w.reaches(t, "web", corev1.PodRunning)
	w.kubectl(t, "debug", "web", "--image="+image, "--image-pull-policy=Never", "-c", "debugger", "--",
		"/whoami", "print", "debugged")
	w.eventuallyPods(t, "web", "the debugger to end", func(proxy, _ *corev1.Pod) error {
		statuses := proxy.Status.EphemeralContainerStatuses
		if len(statuses) != 1 || statuses[0].State.Terminated == nil || statuses[0].State.Terminated.ExitCode != 0 {
			return fmt.Errorf("statuses %v", statuses)
		}
		return nil
	})
	eventuallyOutput(t, w, "debugged", "logs", "web", "-c", "debugger")
}

func TestAResizeReachesTheDelegate(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.pod("web", inTarget("c2", podTemplate("web"))))
	w.reaches(t, "web", corev1.PodRunning)
	w.kubectl(t, "patch", "pod", "web", "--subresource=resize", "-p",
		`{"spec":{"containers":[{"name":"whoami","resources":{"requests":{"cpu":"150m"}}}]}}`)
	w.eventuallyPods(t, "web", "the delegate to be resized", func(proxy, delegate *corev1.Pod) error {
		if cpu := delegate.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); cpu != 150 {
			return fmt.Errorf("the delegate requests %dm", cpu)
		}
		return observed(proxy)
	})
}
