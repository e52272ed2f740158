package copies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	webhooks "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/admission"
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

// TestWhileNoManagerServesTheWebhook shows what waits for the target's manager, and what does not.
func TestWhileNoManagerServesTheWebhook(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	source, admin := newSource(t, "c1", namespace), administrator(t)
	stop := target.ServeWebhook(t, func(server webhooks.Server) {
		reader := env.ClientFor(t, target.Impersonate(managerUser))
		admission.Register(server, reader, reader)
	})
	slice := create(endpointSlices, "web", ofService("web", marks), elsewhere)
	env.Eventually(t, func(ctx context.Context) error {
		if code, answer := source.do(ctx, t, slice, namespace); code != http.StatusForbidden ||
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
