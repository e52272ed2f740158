package copies

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	json      = "application/json"
	jsonPatch = "application/json-patch+json"
	merge     = "application/merge-patch+json"
	strategic = "application/strategic-merge-patch+json"
	apply     = "application/apply-patch+yaml"

	kinds          = "/api/v1/namespaces/NS/"
	secrets        = kinds + "secrets"
	services       = kinds + "services"
	endpointSlices = "/apis/discovery.k8s.io/v1/namespaces/NS/endpointslices"
	ingresses      = "/apis/networking.k8s.io/v1/namespaces/NS/ingresses"

	// The marks of a copy of c1 that the identity wrote.
	annotation = `"annotations":{"multicluster.admiralty.io/followed-by":"USER"}`
	label      = `"labels":{"multicluster.admiralty.io/parent-cluster-id":"c1"}`
	marks      = annotation + "," + label
)

// request is one that an identity makes. In path and body NS stands for the test's namespace, and USER for the
// identity's user name.
type request struct {
	verb, path, contentType, body string
}

// create creates an object with metadata beside its name, and a body beside its metadata.
func create(path, name, metadata, body string) request {
	return request{"POST", path, json, object(name, metadata, body)}
}

// ofService adds the name of a Service to the metadata of its EndpointSlice.
func ofService(service, metadata string) string {
	label := `"labels":{"kubernetes.io/service-name":"` + service + `"`
	return strings.Replace(strings.Replace(metadata, `"labels":{"`, label+`,"`, 1), `"labels":{}`, label+`}`, 1)
}

// replace overwrites an object.
func replace(path, name, metadata, body string) request {
	return request{"PUT", path + "/" + name, json, object(name, metadata, body)}
}

// patch changes the object of a path.
func patch(path, contentType, body string) request { return request{"PATCH", path, contentType, body} }

// remove deletes the object, or the objects, of a path.
func remove(path string) request { return request{verb: "DELETE", path: path} }

// get reads the object, or the objects, of a path.
func get(path string) request { return request{verb: "GET", path: path} }

func object(name, metadata, body string) string {
	return `{"metadata":{"name":"` + name + `",` + metadata + `},` + body + `}`
}

// bodies returns minimal objects of each kind by path, without metadata.
func bodies() map[string]string {
	return map[string]string{
		kinds + "configmaps":      `"data":{"a":"b"}`,
		secrets:                   `"stringData":{"a":"b"}`,
		kinds + "serviceaccounts": `"automountServiceAccountToken":false`,
		services:                  `"spec":{"ports":[{"port":80}]}`,
		kinds + "persistentvolumeclaims": `"spec":{"accessModes":["ReadWriteOnce"],` +
			`"resources":{"requests":{"storage":"1Gi"}}}`,
		endpointSlices: `"addressType":"IPv4","endpoints":[],"ports":[]`,
		ingresses:      `"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}`,
	}
}

// resourceOf returns the resource of a path.
func resourceOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// listKind returns the kind of a list of the objects of a path.
func listKind(path string) schema.GroupVersionKind {
	kind := map[string]string{
		"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "services": "Service",
		"persistentvolumeclaims": "PersistentVolumeClaim", "endpointslices": "EndpointSlice", "ingresses": "Ingress",
	}[resourceOf(path)] + "List"
	group := ""
	if rest, grouped := strings.CutPrefix(path, "/apis/"); grouped {
		group, _, _ = strings.Cut(rest, "/")
	}
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
}

// readable reports whether sources may read, and so patch, the objects of a path: such objects hold no secrets.
func readable(path string) bool { return path != secrets && path != kinds+"configmaps" }

// referred reports whether pods refer to objects of a path.
func referred(path string) bool { return !readable(path) || path == kinds+"serviceaccounts" }
