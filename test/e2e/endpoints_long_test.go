//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withoutReason is longer than copies stay without a reason.
const withoutReason = 150 * time.Second

// TestAServiceWithoutPodsForLongKeepsItsAddressInATarget has two applications without pods for longer than copies stay
// without a reason: one is scaled to zero, and the pod of a roll-out by re-creation finds no room. Clients in c2 go on
// asking the same addresses. The Ingress of the first one stays, too.
func TestAServiceWithoutPodsForLongKeepsItsAddressInATarget(t *testing.T) {
	w := setUp(t)
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
	})
	apps := []string{"scaled", "recreated"}
	for _, app := range apps {
		w.service(t, app)
		create(t, w.c1, w.webServerIn("c2", app))
	}
	before := map[string]*corev1.Service{}
	for _, app := range apps {
		w.hasEndpoints(t, w.c2, app, 1)
		before[app] = w.serviceIn(t, w.c2, app)
		asks := podTemplate("client", "stream", "--every", "500ms", "--timeout", "2s",
			"http://"+before[app].Spec.ClusterIP+"/")
		create(t, w.c1, w.pod("client-of-"+app, inTarget("c2", asks)))
		w.heardByClient(t, app, w.onlyPodOf(t, app, ""))
	}
	ingress := w.ingressInC2(t, "scaled")

	old := map[string]types.UID{}
	for _, app := range apps {
		old[app] = w.onlyPodOf(t, app, "").UID
	}
	w.kubectl(t, "cordon", "admiralty-c2")
	w.kubectl(t, "scale", "deployment", "scaled", "--replicas=0")
	w.kubectl(t, "set", "env", "deployment/recreated", "VERSION=2")
	for _, app := range apps {
		w.hasEndpoints(t, w.c2, app, 0)
	}
	stay := func(ctx context.Context) error {
		return errors.Join(w.isSame(ctx, before["scaled"]), w.isSame(ctx, before["recreated"]), w.isThere(ctx, ingress))
	}
	holds(t, withoutReason, "the copies stay", stay)

	w.kubectl(t, "uncordon", "admiralty-c2")
	w.kubectl(t, "scale", "deployment", "scaled", "--replicas=1")
	for _, app := range apps {
		w.heardByClient(t, app, w.onlyPodOf(t, app, old[app]))
	}
	if err := stay(t.Context()); err != nil {
		t.Error(err)
	}
}

// isSame returns an error unless c2 still has this very Service, with its address.
func (w *world) isSame(ctx context.Context, service *corev1.Service) error {
	now := &corev1.Service{}
	if err := w.c2.Get(ctx, client.ObjectKeyFromObject(service), now); err != nil {
		return err
	}
	if now.UID != service.UID || now.Spec.ClusterIP != service.Spec.ClusterIP {
		return fmt.Errorf("the address of %s was %s, and is %s", now.Name, service.Spec.ClusterIP, now.Spec.ClusterIP)
	}
	return nil
}

// ingressInC2 makes an Ingress of a Service, and waits for its copy in c2.
func (w *world) ingressInC2(t *testing.T, service string) *networkingv1.Ingress {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: service}
	create(t, w.c1, &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
			Name: service, Port: networkingv1.ServiceBackendPort{Number: 80},
		}},
	}})
	ingress := &networkingv1.Ingress{}
	eventually(t, "the Ingress in c2", func(ctx context.Context) error {
		return w.c2.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: service}, ingress)
	})
	return ingress
}

// isThere returns an error unless c2 still has this very Ingress.
func (w *world) isThere(ctx context.Context, ingress *networkingv1.Ingress) error {
	now := &networkingv1.Ingress{}
	err := w.c2.Get(ctx, client.ObjectKeyFromObject(ingress), now)
	if err == nil && now.UID != ingress.UID {
		err = fmt.Errorf("the Ingress %s was made anew", ingress.Name)
	}
	return err
}

// onlyPodOf waits until an app has just one pod, another than the old one.
func (w *world) onlyPodOf(t *testing.T, app string, old types.UID) *corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	eventually(t, "one pod of "+app, func(ctx context.Context) error {
		err := w.c1.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{"app": app})
		if err == nil && (len(list.Items) != 1 || list.Items[0].UID == old || !ready(&list.Items[0])) {
			err = fmt.Errorf("there are %d, or it is the old one, or it is not ready", len(list.Items))
		}
		return err
	})
	return &list.Items[0]
}

// heardByClient waits until the client of an app has had an answer of a pod.
func (w *world) heardByClient(t *testing.T, app string, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the client of "+app+" to hear "+pod.Name, func(ctx context.Context) error {
		out, err := runKubectl(ctx, "--context", "c1", "-n", w.namespace, "logs", "client-of-"+app)
		if err == nil && !strings.Contains(out, "answered: "+pod.Name) {
			err = errors.New("it has not")
		}
		return err
	})
}
