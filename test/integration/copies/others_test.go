package copies

import (
	"net/http"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOthersAreNotHindered: who may run pods, and who may not make PodChaperons, is no source, whatever else it may do.
func TestOthersAreNotHindered(t *testing.T) {
	namespace := target.Namespace(t, nil)
	c1 := source(t, "c1", namespace)
	admin := impersonated(t, "admin", "system:masters")
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "developer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "developer"}},
	}
	must(t, target.Client.Create(t.Context(), binding))
	secret := request{"POST", secrets, json, object(`"labels":{}`, `"data":{}`)}
	copied := request{"POST", secrets, json, object(marks, `"data":{}`)}
	slice := request{"POST", slices, json, object(`"labels":{}`, bodies()[slices])}

	for name, test := range map[string]struct {
		maker identity
		made  request
		who   identity
		do    []request
	}{
		"an administrator": {admin, secret, admin, []request{
			{"PUT", secrets + "/web", json, object(`"labels":{}`, `"data":{}`)}, {verb: "DELETE", path: secrets + "/web"},
		}},
		"an administrator and a copy": {c1, copied, admin, []request{
			{"PATCH", secrets + "/web", merge, `{"metadata":{"annotations":null,"labels":null}}`}, {verb: "DELETE", path: secrets + "/web"},
		}},
		"a developer": {admin, secret, impersonated(t, "developer", "system:authenticated"), []request{
			{"PUT", secrets + "/web", json, object(`"labels":{}`, `"data":{}`)}, {verb: "DELETE", path: secrets + "/web"},
		}},
		"the namespace controller": {admin, secret, serviceAccount(t, "kube-system", "namespace-controller"), []request{
			{verb: "DELETE", path: secrets},
		}},
		"the garbage collector": {c1, copied, serviceAccount(t, "kube-system", "generic-garbage-collector"), []request{
			{"PATCH", secrets + "/web", merge, `{"metadata":{"annotations":null}}`}, {verb: "DELETE", path: secrets + "/web"},
		}},
		"the endpoint slice controller": {admin, slice, serviceAccount(t, "kube-system", "endpointslice-controller"), []request{
			{"PUT", slices + "/web", json, object(`"labels":{}`, bodies()[slices])}, {verb: "DELETE", path: slices + "/web"},
		}},
		"the manager": {c1, copied, serviceAccount(t, admiralty, manager), []request{
			{verb: "DELETE", path: secrets + "/web"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if code, answer := test.maker.do(t.Context(), t, test.made, namespace); code != http.StatusCreated {
				t.Fatalf("making it: answer %d: %s", code, answer)
			}
			for _, r := range test.do {
				if code, answer := test.who.do(t.Context(), t, r, namespace); code != http.StatusOK {
					t.Errorf("%s: answer %d: %s", r.verb, code, answer)
				}
			}
			code, answer := admin.do(t.Context(), t, request{verb: "GET", path: test.made.path + "/web"}, namespace)
			if code != http.StatusNotFound {
				t.Errorf("it is still there: answer %d: %s", code, answer)
			}
		})
	}
}
