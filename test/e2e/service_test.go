//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// service creates a Service that selects the pods of an app, in c1.
func (w *world) service(t *testing.T, app string, changes ...func(*corev1.Service)) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intOrString(8080)}},
		},
	}
	for _, change := range changes {
		change(service)
	}
	create(t, w.c1, service)
}

// serviceIn waits until a cluster has a Service with an address, and returns it.
func (w *world) serviceIn(t *testing.T, c *cluster, name string) *corev1.Service {
	t.Helper()
	service := &corev1.Service{}
	eventually(t, "the Service "+name+" in "+c.name, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, service)
		if err == nil && (service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone) {
			err = fmt.Errorf("its address is %q", service.Spec.ClusterIP)
		}
		return err
	})
	return service
}

// webServerIn returns a Deployment of one elected web server in a target. A roll-out ends the old pod first.
func (w *world) webServerIn(target, app string) *appsv1.Deployment {
	server := w.webServer(1)
	server.Name = app
	server.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
	server.Spec.Selector.MatchLabels = map[string]string{"app": app}
	server.Spec.Template.Labels = map[string]string{"app": app}
	server.Spec.Template = inTarget(target, server.Spec.Template)
	return server
}

// endpointsIn returns how many ready endpoints a Service has in a cluster.
func (w *world) endpointsIn(ctx context.Context, c *cluster, service string) (int, error) {
	all := &discoveryv1.EndpointSliceList{}
	err := c.List(ctx, all, client.InNamespace(w.namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service})
	if err != nil {
		return 0, err
	}
	count := 0
	for i := range all.Items {
		for _, endpoint := range all.Items[i].Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				count++
			}
		}
	}
	return count, nil
}

// hasEndpoints waits until a Service has so many ready endpoints in a cluster.
func (w *world) hasEndpoints(t *testing.T, c *cluster, service string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d endpoints of %s in %s", want, service, c.name), func(ctx context.Context) error {
		count, err := w.endpointsIn(ctx, c, service)
		if err == nil && count != want {
			err = fmt.Errorf("there are %d", count)
		}
		return err
	})
}

// answerers asks a URL so many times from a container of a pod, each time over a new connection, and returns the pods
// that answered, each once.
func (w *world) answerers(ctx context.Context, c *cluster, pod, url string, times int) ([]string, error) {
	var heard []string
	for range times {
		out, err := runKubectl(ctx, "--context", c.name, "--namespace", w.namespace, "exec", pod, "--",
			"/whoami", "get", "--timeout", "5s", url)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		heard = append(heard, strings.TrimSpace(out))
	}
	slices.Sort(heard)
	return slices.Compact(heard), nil
}
