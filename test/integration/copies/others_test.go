package copies

import (
	"net/http"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestThePolicyDoesNotHinderOthers has users who may run pods, and users who may not create PodChaperons. Neither are
// sources, whatever other rights they have.
func TestThePolicyDoesNotHinderOthers(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	c1, admin := newSource(t, "c1", namespace), administrator(t)
	target.BindRole(t, "developer", namespace, "system:aggregate-to-edit")
	const noLabels, noData = `"labels":{}`, `"data":{}`
	secret, copied := create(secrets, "web", noLabels, noData), create(secrets, "web", marks, noData)
	slice := create(endpointSlices, "web", noLabels, bodies()[endpointSlices])
	replaceAndRemove := []request{replace(secrets, "web", noLabels, noData), remove(secrets + "/web")}

	for name, test := range map[string]struct {
		maker identity
		made  request
		who   identity
		do    []request
	}{
		"an administrator works with a Secret": {admin, secret, admin, replaceAndRemove},
		"an administrator works with a copy": {c1, copied, admin, []request{
			patch(secrets+"/web", merge, `{"metadata":{"annotations":null,"labels":null}}`), remove(secrets + "/web"),
		}},
		"a developer works with a Secret": {
			admin, secret, impersonated(t, "developer", "system:authenticated"), replaceAndRemove,
		},
		"the namespace controller deletes all Secrets": {
			admin, secret, serviceAccount(t, "kube-system", "namespace-controller"), []request{remove(secrets)},
		},
		"the garbage collector deletes a copy": {
			c1, copied, serviceAccount(t, "kube-system", "generic-garbage-collector"), []request{
				patch(secrets+"/web", merge, `{"metadata":{"annotations":null}}`), remove(secrets + "/web"),
			},
		},
		"the endpoint slice controller works with a slice": {
			admin, slice, serviceAccount(t, "kube-system", "endpointslice-controller"),
			[]request{
				replace(endpointSlices, "web", noLabels, bodies()[endpointSlices]), remove(endpointSlices + "/web"),
			},
		},
		"the manager deletes a copy": {
			c1, copied, serviceAccount(t, env.ReleaseNamespace, env.ManagerAccount),
			[]request{remove(secrets + "/web")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.maker.expect(t, http.StatusCreated, test.made, namespace)
			for _, r := range test.do {
				test.who.expect(t, http.StatusOK, r, namespace)
			}
			admin.expect(t, http.StatusNotFound, get(test.made.path+"/web"), namespace)
		})
	}
}
