package copies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	webhooks "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/endpoints"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const elsewhere = `"addressType":"IPv4","endpoints":[{"addresses":["10.1.2.3"]}],"ports":[]`

func TestEndpointsGoWithTheirService(t *testing.T) {
	startManager(t, managerUser)
	namespace := env.Namespace(t, nil, target)
	source, admin := newSource(t, "c1", namespace), administrator(t)
	createChaperon(t, namespace, "web", "c1", "needed")
	for _, name := range []string{"web", "stays"} {
		source.expect(t, http.StatusCreated, create(services, name, marks, bodies()[services]), namespace)
		source.expect(t, http.StatusCreated, create(endpointSlices, name, ofService(name, marks), elsewhere), namespace)
	}
	source.expect(t, http.StatusOK, remove(services+"/web"), namespace)
	env.WaitGone(t, target, &discoveryv1.EndpointSlice{ObjectMeta: env.Meta(namespace, "web")})

	t.Log("The target's own Service of that name does not inherit endpoints of a source.")
	admin.expect(t, http.StatusCreated, create(services, "web", `"labels":{}`, bodies()[services]), namespace)
	admin.expect(t, http.StatusCreated, create(endpointSlices, "web", ofService("web", marks), elsewhere), namespace)
	env.WaitGone(t, target, &discoveryv1.EndpointSlice{ObjectMeta: env.Meta(namespace, "web")})
	env.Get(t, target, &discoveryv1.EndpointSlice{ObjectMeta: env.Meta(namespace, "stays")})
}

// startEndpoints runs the part of the target's manager that limits where endpoints of sources lead, until the test
// ends. It returns what serves the webhook.
func startEndpoints(t *testing.T) func(webhooks.Server) {
	t.Helper()
	leadsTo := addresses.Endpoints{}
	env.RunManager(t, target.Impersonate(managerUser), func(mgr ctrl.Manager) error {
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		leadsTo.InUse = inUse
		return endpoints.New(endpoints.Options{
			Client: mgr.GetClient(), Addresses: leadsTo, Recorder: mgr.GetEventRecorder("endpoints"),
		}).Register(mgr)
	})
	return func(server webhooks.Server) {
		reader := env.ClientFor(t, target.Impersonate(managerUser))
		admission.Register(server, reader, reader, leadsTo)
	}
}

// TestEndpointsWhoseAddressComesIntoUseAreDeleted has an address that a pod of the target gets later, and one of
// endpoints from before the webhook.
func TestEndpointsWhoseAddressComesIntoUseAreDeleted(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	source, admin := newSource(t, "c1", namespace), administrator(t)
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, "db"), Spec: env.PodSpec()}
	give := func(address string) {
		env.ChangeStatus(t, target, pod, func(p *corev1.Pod) {
			p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		})
	}
	env.Create(t, target, pod)
	give("10.1.2.4")
	at := func(address string) string { return strings.Replace(elsewhere, "10.1.2.3", address, 1) }
	ours := func(name, address string) request {
		return create(endpointSlices, name, ofService("web", marks), at(address))
	}
	source.expect(t, http.StatusCreated, create(services, "web", marks, bodies()[services]), namespace)
	source.expect(t, http.StatusCreated, ours("web", "10.1.2.3"), namespace)
	source.expect(t, http.StatusCreated, ours("old", "10.1.2.4"), namespace)
	source.expect(t, http.StatusCreated, ours("stays", "10.1.2.5"), namespace)
	admin.expect(t, http.StatusCreated, create(endpointSlices, "own", `"labels":{}`, at("10.1.2.3")), namespace)

	serve := startEndpoints(t)
	env.WaitGone(t, target, &discoveryv1.EndpointSlice{ObjectMeta: env.Meta(namespace, "old")})
	env.WaitForEvent(t, target, &corev1.Service{ObjectMeta: env.Meta(namespace, "web")}, endpoints.ReasonRefused,
		"in use by a pod of this cluster")
	give("10.1.2.3")
	env.WaitGone(t, target, &discoveryv1.EndpointSlice{ObjectMeta: env.Meta(namespace, "web")})
	for _, name := range []string{"stays", "own"} {
		env.Get(t, target, &discoveryv1.EndpointSlice{ObjectMeta: env.Meta(namespace, name)})
	}

	t.Log("The source cannot write these again, until the pod is gone.")
	target.ServeWebhook(t, serve)
	again := ours("web", "10.1.2.3")
	env.Eventually(t, func(ctx context.Context) error {
		if code, answer := source.do(ctx, t, dry(again), namespace); code != http.StatusForbidden ||
			!strings.Contains(answer, "in use by a pod") {
			return fmt.Errorf("the webhook does not refuse: %d: %s", code, answer)
		}
		return nil
	})
	env.Delete(t, target, pod)
	env.Eventually(t, func(ctx context.Context) error {
		if code, answer := source.do(ctx, t, again, namespace); code != http.StatusCreated {
			return fmt.Errorf("the webhook refuses: %d: %s", code, answer)
		}
		return nil
	})
}

// dry returns the request as a dry run, which leaves nothing behind while the API server does not call the webhook yet.
func dry(r request) request {
	r.path += "?dryRun=All"
	return r
}

// TestWhileNoManagerServesTheWebhook shows what waits for the target's manager, and what does not.
func TestWhileNoManagerServesTheWebhook(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	source, admin := newSource(t, "c1", namespace), administrator(t)
	stop := target.ServeWebhook(t, startEndpoints(t))
	slice := create(endpointSlices, "web", ofService("web", marks), elsewhere)
	env.Eventually(t, func(ctx context.Context) error {
		if code, answer := source.do(ctx, t, dry(slice), namespace); code != http.StatusForbidden ||
			!strings.Contains(answer, "write the Service first") {
			return fmt.Errorf("the webhook is not called: %d: %s", code, answer)
		}
		return nil
	})
	source.expect(t, http.StatusCreated, create(services, "web", marks, bodies()[services]), namespace)
	source.expect(t, http.StatusCreated, slice, namespace) // at once: the webhook has no cache of Services

	stop()
	const path = endpointSlices + "/web"
	source.expect(t, http.StatusInternalServerError, patch(path, merge, `{"endpoints":[]}`), namespace)
	relabel := `{"metadata":{"labels":{"multicluster.admiralty.io/target-hash":"a"}}}`
	source.expect(t, http.StatusOK, patch(path, merge, relabel), namespace)
	source.expect(t, http.StatusOK, patch(services+"/web", merge, relabel), namespace)
	source.expect(t, http.StatusOK, remove(path), namespace)
	admin.expect(t, http.StatusCreated, create(endpointSlices, "web", `"labels":{}`, elsewhere), namespace)
}
