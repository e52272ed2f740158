package copies

import (
	"net/http"
	"strings"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestASourceCreatesChangesAndDeletesItsOwnCopies(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	c1 := newSource(t, "c1", namespace)
	for path, body := range bodies() {
		change := replace(path, "web", marks, body)
		if readable(path) {
			change = patch(path+"/web", jsonPatch, `[`+
				`{"op":"test","path":"/metadata/labels/multicluster.admiralty.io~1parent-cluster-id","value":"c1"},`+
				`{"op":"add","path":"/metadata/annotations/multicluster.admiralty.io~1needed-at","value":"now"}]`)
		}
		c1.expect(t, http.StatusCreated, create(path, "web", marks, body), namespace)
		c1.expect(t, http.StatusOK, change, namespace)
		c1.expect(t, http.StatusOK, remove(path+"/web"), namespace)
	}
}

func TestASourceCannotTouchObjectsOfOthers(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	c1, c2 := newSource(t, "c1", namespace), newSource(t, "c2", namespace)
	admin := administrator(t)
	for path, body := range bodies() {
		for name, notOurs := range map[string]struct {
			maker identity
			marks string
		}{
			"of-the-target":              {admin, `"labels":{}`},
			"of-the-target-with-a-label": {admin, label},
			"of-another-source":          {c2, marks}, // It even says that it is c1.
		} {
			t.Run(resourceOf(path)+" "+name, func(t *testing.T) {
				notOurs.maker.expect(t, http.StatusCreated, create(path, name, notOurs.marks, body), namespace)
				c1.expectForbidden(t, namespace,
					replace(path, name, marks, body),
					patch(path+"/"+name, merge, `{"metadata":{`+marks+`}}`),
					patch(path+"/"+name, merge, `{}`),
					remove(path+"/"+name),
					remove(path))
			})
		}
	}
}

func TestASourceCannotCreateAnythingButItsCopies(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	c1 := newSource(t, "c1", namespace)
	const (
		noData  = `"data":{}`
		another = label + `,"annotations":{"multicluster.admiralty.io/followed-by":"somebody"}`
		ofC2    = annotation + `,"labels":{"multicluster.admiralty.io/parent-cluster-id":"c2"}`
		ofToken = label + `,"annotations":{"kubernetes.io/service-account.name":"default",` +
			`"multicluster.admiralty.io/followed-by":"USER"}`
		withSnippet = label + `,"annotations":{"nginx.ingress.kubernetes.io/server-snippet":"x",` +
			`"multicluster.admiralty.io/followed-by":"USER"}`
		mustHave = "must have the annotation multicluster.admiralty.io/followed-by: USER"
		// Two policies refuse this, and API servers ask them in any order.
		theMark = "the annotation multicluster.admiralty.io/followed-by: "
	)
	c1.expect(t, http.StatusCreated, create(secrets, "own", marks, noData), namespace)
	for name, test := range map[string]struct {
		request request
		says    string
	}{
		"an object without marks": {
			create(secrets, "web", `"labels":{}`, noData), "secrets/web in namespace NS " + mustHave,
		},
		"an object without the label":        {create(secrets, "web", annotation, noData), "must have"},
		"an object without the annotation":   {create(secrets, "web", label, noData), "must have"},
		"an object in the name of another":   {create(secrets, "web", another, noData), theMark},
		"a copy that loses its marks":        {replace(secrets, "own", `"labels":{}`, noData), "must have"},
		"a copy that becomes another user's": {replace(secrets, "own", another, noData), theMark},
		"a copy that becomes another cluster's": {
			replace(secrets, "own", ofC2, noData), "is the copy of another source cluster",
		},
		"an object with a generated name": {
			request{"POST", secrets + "?dryRun=All", json, `{"metadata":{"generateName":"web-"}}`}, mustHave,
		},
		"a token Secret": {
			create(secrets, "token", ofToken, `"type":"kubernetes.io/service-account-token"`),
			"has the type kubernetes.io/service-account-token",
		},
		"a token of its service account": {
			request{"POST", kinds + "serviceaccounts/web/token", json, `{}`},
			`cannot create resource "serviceaccounts/token"`,
		},
		"a load balancer": {
			create(services, "web", marks, `"spec":{"type":"LoadBalancer","ports":[{"port":80}]}`), "ClusterIP only",
		},
		"a Service with an external IP": {
			create(services, "web", marks, `"spec":{"externalIPs":["192.0.2.1"],"ports":[{"port":80}]}`),
			"ClusterIP only",
		},
		"a Service with an external name": {
			create(services, "web", marks, `"spec":{"type":"ExternalName","externalName":"example.org"}`),
			"ClusterIP only",
		},
		"an Ingress with a snippet": {create(ingresses, "web", withSnippet, bodies()[ingresses]), "snippets"},
		"a pod": {
			create(kinds+"pods", "web", marks, `"spec":{"containers":[{"name":"c","image":"i"}]}`),
			`cannot create resource "pods"`,
		},
		"a copy in another namespace": {
			create("/api/v1/namespaces/default/secrets", "web", marks, noData), `cannot create resource "secrets"`,
		},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			code, answer := c1.do(t.Context(), t, test.request, namespace)
			says := strings.NewReplacer("NS", namespace, "USER", c1.user, `"`, `\"`).Replace(test.says)
			if code != http.StatusForbidden || !strings.Contains(answer, says) {
				t.Errorf("answer %d, want Forbidden that says %q: %s", code, says, answer)
			}
		})
	}
}
