package copies

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	kinds     = "/api/v1/namespaces/NS/"
	slices    = "/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices"
	ingresses = "/apis/networking.k8s.io/v1/namespaces/NS/ingresses"
)

// listKind is the kind of a list of what is at the path.
func listKind(path string) schema.GroupVersionKind {
	kind := map[string]string{
		"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "services": "Service",
		"persistentvolumeclaims": "PersistentVolumeClaim", "endpointslices": "EndpointSlice", "ingresses": "Ingress",
	}[path[strings.LastIndex(path, "/")+1:]] + "List"
	group := ""
	if rest, grouped := strings.CutPrefix(path, "/apis/"); grouped {
		group, _, _ = strings.Cut(rest, "/")
	}
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
}

// bodies are minimal objects of each kind by path, without metadata.
func bodies() map[string]string {
	return map[string]string{
		kinds + "configmaps":             `"data":{"a":"b"}`,
		kinds + "secrets":                `"stringData":{"a":"b"}`,
		kinds + "serviceaccounts":        `"automountServiceAccountToken":false`,
		kinds + "services":               `"spec":{"ports":[{"port":80}]}`,
		kinds + "persistentvolumeclaims": `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`,
		slices:                           `"addressType":"IPv4","endpoints":[],"ports":[]`,
		ingresses:                        `"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}`,
	}
}

// readable says whether sources may read, and so patch, objects of a kind: there is nothing in them to hide.
func readable(path string) bool {
	return !strings.HasSuffix(path, "/configmaps") && !strings.HasSuffix(path, "/secrets")
}

// referred says whether pods refer to objects of a kind.
func referred(path string) bool {
	return !readable(path) || strings.HasSuffix(path, "/serviceaccounts")
}

func object(metadata, body string) string { return named("web", metadata, body) }

func named(name, metadata, body string) string {
	return `{"metadata":{"name":"` + name + `",` + metadata + `},` + body + `}`
}

func TestASourceMakesChangesAndDeletesItsOwnCopies(t *testing.T) {
	namespace := target.Namespace(t, nil)
	c1 := source(t, "c1", namespace)
	for path, body := range bodies() {
		change := request{"PUT", path + "/web", json, object(marks, body)}
		if readable(path) {
			change = request{"PATCH", path + "/web", jsonPatch, `[{"op":"test","path":"/metadata/labels/multicluster.admiralty.io~1parent-cluster-id","value":"c1"},` +
				`{"op":"add","path":"/metadata/annotations/multicluster.admiralty.io~1needed-at","value":"now"}]`}
		}
		for _, step := range []struct {
			request
			want int
		}{
			{request{"POST", path, json, object(marks, body)}, http.StatusCreated},
			{change, http.StatusOK},
			{request{verb: "DELETE", path: path + "/web"}, http.StatusOK},
		} {
			if code, answer := c1.do(t.Context(), t, step.request, namespace); code != step.want {
				t.Errorf("%s %s: answer %d, want %d: %s", step.verb, step.path, code, step.want, answer)
			}
		}
	}
}

func TestASourceCannotTouchWhatIsNotItsOwn(t *testing.T) {
	namespace := target.Namespace(t, nil)
	c1, c2 := source(t, "c1", namespace), source(t, "c2", namespace)
	admin := impersonated(t, "admin", "system:masters")
	for path, body := range bodies() {
		for name, foreign := range map[string]struct {
			maker identity
			marks string
		}{
			"the-targets":            {admin, `"labels":{}`},
			"the-targets-with-label": {admin, `"labels":{"multicluster.admiralty.io/parent-cluster-id":"c1"}`},
			"another-sources":        {c2, marks}, // who even says that it is c1
		} {
			t.Run(path[strings.LastIndex(path, "/")+1:]+" "+name, func(t *testing.T) {
				made := request{"POST", path, json, named(name, foreign.marks, body)}
				if code, answer := foreign.maker.do(t.Context(), t, made, namespace); code != http.StatusCreated {
					t.Fatalf("answer %d: %s", code, answer)
				}
				for _, r := range []request{
					{"PUT", path + "/" + name, json, named(name, marks, body)},
					{"PATCH", path + "/" + name, merge, `{"metadata":{` + marks + `}}`},
					{"PATCH", path + "/" + name, merge, `{}`},
					{verb: "DELETE", path: path + "/" + name},
					{verb: "DELETE", path: path},
				} {
					if code, answer := c1.do(t.Context(), t, r, namespace); code != http.StatusForbidden {
						t.Errorf("%s: answer %d, want Forbidden: %s", r.verb, code, answer)
					}
				}
			})
		}
	}
}

func TestASourceCannotMakeAnythingElse(t *testing.T) {
	namespace := target.Namespace(t, nil)
	c1 := source(t, "c1", namespace)
	const (
		annotation = `"annotations":{"multicluster.admiralty.io/followed-by":"USER"}`
		label      = `"labels":{"multicluster.admiralty.io/parent-cluster-id":"c1"}`
		another    = label + `,"annotations":{"multicluster.admiralty.io/followed-by":"somebody"}`
	)
	services, own := kinds+"services", request{"POST", secrets, json, `{"metadata":{"name":"own",` + marks + `}}`}
	if code, answer := c1.do(t.Context(), t, own, namespace); code != http.StatusCreated {
		t.Fatalf("answer %d: %s", code, answer)
	}
	for name, test := range map[string]struct {
		request
		says string
	}{
		"nothing without marks":              {request{"POST", secrets, json, object(`"labels":{}`, `"data":{}`)}, "secrets/web in namespace NS must have the annotation multicluster.admiralty.io/followed-by: USER"},
		"nothing without the label":          {request{"POST", secrets, json, object(annotation, `"data":{}`)}, "must have"},
		"nothing without the annotation":     {request{"POST", secrets, json, object(label, `"data":{}`)}, "must have"},
		"nothing in another's name":          {request{"POST", secrets, json, object(another, `"data":{}`)}, "must have"},
		"a copy stays one":                   {request{"PUT", secrets + "/own", json, `{"metadata":{"name":"own"}}`}, "must have"},
		"and nobody else's":                  {request{"PUT", secrets + "/own", json, `{"metadata":{"name":"own",` + another + `}}`}, "must have"},
		"nothing of any name":                {request{"POST", secrets + "?dryRun=All", json, `{"metadata":{"generateName":"web-"}}`}, "must have the annotation multicluster.admiralty.io/followed-by: USER"},
		"a copy stays its cluster's":         {request{"PUT", secrets + "/own", json, `{"metadata":{"name":"own","annotations":{"multicluster.admiralty.io/followed-by":"USER"},"labels":{"multicluster.admiralty.io/parent-cluster-id":"c2"}}}`}, "is the copy of another source cluster"},
		"no tokens":                          {request{"POST", secrets, json, `{"type":"kubernetes.io/service-account-token","metadata":{"name":"token","annotations":{"kubernetes.io/service-account.name":"default","multicluster.admiralty.io/followed-by":"USER"},` + label + `}}`}, "use type Opaque"},
		"no tokens of accounts that it made": {request{"POST", kinds + "serviceaccounts/web/token", json, `{}`}, `cannot create resource "serviceaccounts/token"`},
		"no load balancers":                  {request{"POST", services, json, object(marks, `"spec":{"type":"LoadBalancer","ports":[{"port":80}]}`)}, "ClusterIP only"},
		"no external IPs":                    {request{"POST", services, json, object(marks, `"spec":{"externalIPs":["192.0.2.1"],"ports":[{"port":80}]}`)}, "ClusterIP only"},
		"no external names":                  {request{"POST", services, json, object(marks, `"spec":{"type":"ExternalName","externalName":"example.org"}`)}, "ClusterIP only"},
		"no snippets":                        {request{"POST", ingresses, json, `{"metadata":{"name":"web","annotations":{"nginx.ingress.kubernetes.io/server-snippet":"x","multicluster.admiralty.io/followed-by":"USER"},` + label + `},"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}}`}, "snippets"},
		"no pods":                            {request{"POST", kinds + "pods", json, object(marks, `"spec":{"containers":[{"name":"c","image":"i"}]}`)}, `cannot create resource "pods"`},
		"nothing elsewhere":                  {request{"POST", "/api/v1/namespaces/default/secrets", json, object(marks, `"data":{}`)}, `cannot create resource "secrets"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := c1.do(t.Context(), t, test.request, namespace)
			says := strings.NewReplacer("NS", namespace, "USER", c1.user, `"`, `\"`).Replace(test.says)
			if code != http.StatusForbidden || !strings.Contains(answer, says) {
				t.Errorf("answer %d, want Forbidden that says %q: %s", code, says, answer)
			}
		})
	}
}
