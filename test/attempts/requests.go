package attempts

import (
	"fmt"
	"strings"
)

const (
	mediaJSON  = "application/json"
	mediaMerge = "application/merge-patch+json"
	mediaApply = "application/apply-patch+yaml"

	core = "/api/v1/namespaces/NS/"
	// measured is the metrics API.
	measured = "/apis/metrics.k8s.io/v1beta1/"
	project  = "/apis/multicluster.admiralty.io/v1alpha1/"
	usage    = measured + "namespaces/NS/pods"
	label    = "multicluster.admiralty.io/parent-cluster-id"
	markKey  = "multicluster.admiralty.io/followed-by"
	dryRun   = "?dryRun=All"
	owners   = `"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"web","uid":"` + ownerUID + `"}]`
)

// Paths and bodies have placeholders. NS stands for the namespace, USER for the user's name, USER-OF-c2 for that of the
// second source, and ACCOUNT-OF-c2 for the name of its service account. LEASE and VERSION stand for the name and the
// resourceVersion of the user's Lease.
const (
	userOf    = "USER-OF-"
	accountOf = "ACCOUNT-OF-"
	// ownerUID is the UID of the Secret web in shop.
	ownerUID = "OWNER-UID"
	// The addresses are those of a World.
	podAddress      = "POD-ADDRESS"
	podAddressNAT64 = "POD-NAT64"
	delegateAddress = "DELEGATE-ADDRESS"
	nodeAddress     = "NODE-ADDRESS"
	bridgeAddress   = "BRIDGE-ADDRESS"
	serviceAddress  = "SERVICE-ADDRESS"
	serverAddress   = "SERVER-ADDRESS"
)

// request is one request.
type request struct {
	verb, path, contentType, body string
	as                            string // the user to impersonate, or empty
}

// kind is a kind of objects. Some have a variant.
type kind string

const (
	configMap  kind = "ConfigMap"
	secret     kind = "Secret"
	account    kind = "ServiceAccount"
	claim      kind = "PersistentVolumeClaim"
	service    kind = "Service"
	slice      kind = "EndpointSlice"
	ingress    kind = "Ingress"
	pod        kind = "Pod"
	chaperon   kind = "PodChaperon"
	privileged kind = "PodChaperon that is privileged"
	balancer   kind = "Service that is a load balancer"
	formless   kind = "PodChaperon whose containers are a text"
	choosing   kind = "PersistentVolumeClaim that names its volume"
	cloned     kind = "PersistentVolumeClaim that clones another one"
	endless    kind = "PodChaperon with an endless quantity"
	binding    kind = "RoleBinding"
	sourceKind kind = "Source"
	named      kind = "Service with the name of another host"
	balanced   kind = "Service with the address of a load balancer"
	greedy     kind = "Service that selects pods of the target"
	selective  kind = "Service that selects delegates of c1"
	lease      kind = "Lease"
)

// typed returns Secrets of a type.
func typed(name, data string) kind { return kind("Secret " + name + " " + data) }

// path returns the path of the objects in a namespace.
func (k kind) path() string {
	name, _, _ := strings.Cut(string(k), " ")
	plural := strings.TrimSuffix(strings.ToLower(name), "s") + "s"
	switch kind(name) {
	case slice:
		return "/apis/discovery.k8s.io/v1/namespaces/NS/" + plural
	case ingress:
		return "/apis/networking.k8s.io/v1/namespaces/NS/ingresses"
	case lease:
		return "/apis/coordination.k8s.io/v1/namespaces/NS/" + plural
	case binding:
		return "/apis/rbac.authorization.k8s.io/v1/namespaces/NS/" + plural
	case chaperon, sourceKind:
		return project + "namespaces/NS/" + plural
	default:
		return core + plural
	}
}

// body returns a minimal body, beside the metadata.
//
//nolint:gocyclo // a list
func (k kind) body() string {
	const (
		ours = `"apiVersion":"multicluster.admiralty.io/v1alpha1","kind":`
		idle = `"schedulerName":"nobody",` // No kubelet starts it.
	)
	switch k {
	case configMap:
		return `"data":{"a":"b"}`
	case secret:
		return `"stringData":{"a":"b"}`
	case account:
		return `"automountServiceAccountToken":false`
	case claim:
		return claimWith(`"volumeMode":"Filesystem"`)
	case choosing:
		return claimWith(`"volumeName":"of-another-team"`)
	case cloned:
		return claimWith(`"dataSource":{"kind":"PersistentVolumeClaim","name":"web"}`)
	case service:
		return `"spec":{"ports":[{"port":80}]}`
	case balancer:
		return `"spec":{"type":"LoadBalancer","ports":[{"port":80}]}`
	case named:
		return `"spec":{"externalName":"db.other","ports":[{"port":80}]}`
	case balanced:
		return `"spec":{"loadBalancerIP":"10.1.2.3","ports":[{"port":80}]}`
	case greedy:
		return `"spec":{"selector":{"app":"db"},"ports":[{"port":80}]}`
	case selective:
		return `"spec":{"selector":{"app":"db","` + label + `":"id-of-c1"},"ports":[{"port":80}]}`
	case slice:
		return `"addressType":"IPv4","endpoints":[{"addresses":["10.1.2.3"]}],"ports":[]`
	case ingress:
		return `"spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}`
	case pod:
		return `"spec":{` + idle + `"containers":[{"name":"c","image":"i"}]}`
	case chaperon:
		return ours + `"PodChaperon","spec":{` + idle + `"containers":[{"name":"c","image":"i"}]}`
	case privileged:
		return ours + `"PodChaperon","spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i",` +
			`"securityContext":{"privileged":true}}]}`
	case formless:
		return ours + `"PodChaperon","spec":{"containers":"x"}`
	case endless:
		return ours + `"PodChaperon","spec":{"overhead":{"cpu":"1e-999999999"},"containers":[{"name":"c","image":"i"}]}`
	case lease:
		return `"spec":{"holderIdentity":"attempt"}`
	case binding:
		return `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}`
	case sourceKind:
		return ours + `"Source","spec":{"userName":"a"}`
	}
	_, variant, _ := strings.Cut(string(k), " ")
	name, data, _ := strings.Cut(variant, " ")
	return `"type":"` + name + `","data":{` + data + `}`
}

func claimWith(fields string) string {
	return `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},` + fields + `}`
}

// copied is the metadata of a copy with a cluster ID. An EndpointSlice belongs to that source's Service.
func copied(k kind, id string) string {
	if k == slice {
		return endpointsOf("of-"+id, id)
	}
	return marked(id)
}

// endpointsOf is the metadata of a copy with a cluster ID, and with the name of a Service.
func endpointsOf(service, id string) string {
	return withLabel(id, `"kubernetes.io/service-name":"`+service+`"`)
}

// labelled is the metadata of an object with a cluster ID.
func labelled(id string) string { return `"labels":{"` + label + `":"id-of-` + id + `"}` }

// marked is the metadata of a copy with a cluster ID, and with other annotations.
func marked(id string, annotations ...string) string {
	annotations = append([]string{`"` + markKey + `":"USER"`}, annotations...)
	return labelled(id) + `,"annotations":{` + strings.Join(annotations, ",") + `}`
}

// markedBy is the metadata of a copy of a user.
func markedBy(user, id string) string {
	return labelled(id) + `,"annotations":{"` + markKey + `":"` + user + `"}`
}

// withLabel is the metadata of a copy with one more label.
func withLabel(id, more string) string {
	return strings.Replace(marked(id), `"labels":{`, `"labels":{`+more+`,`, 1)
}

func object(k kind, name, metadata string) string {
	if metadata != "" {
		metadata = "," + metadata
	}
	return `{"metadata":{"name":"` + name + `"` + metadata + `},` + k.body() + `}`
}

// create creates the object "new".
func create(k kind, metadata string) request {
	return request{verb: "POST", path: k.path() + dryRun, contentType: mediaJSON, body: object(k, "new", metadata)}
}

func replace(k kind, name, metadata string) request {
	return request{
		verb: "PUT", path: k.path() + "/" + name + dryRun, contentType: mediaJSON, body: object(k, name, metadata),
	}
}

// renew updates the Lease of the source.
func renew(metadata string) request {
	return replace(lease, "LEASE", `"resourceVersion":"VERSION"`+metadata)
}

// apply forces the object to be as the identity wants it.
func apply(k kind, name, metadata string) request {
	path := k.path() + "/" + name + dryRun + "&fieldManager=attempt&force=true"
	return request{verb: "PATCH", path: path, contentType: mediaApply, body: object(k, name, metadata)}
}

// patch changes the metadata.
func patch(k kind, name, metadata string) request {
	return request{
		verb: "PATCH", path: k.path() + "/" + name + dryRun, contentType: mediaMerge,
		body: `{"metadata":{` + metadata + `}}`,
	}
}

// move changes the addresses of an EndpointSlice.
func move(name string) request { return lead(name, `"addresses":["10.4.5.6"]`) }

// lead changes the endpoint of an EndpointSlice.
func lead(name, endpoint string) request {
	return request{
		verb: "PATCH", path: slice.path() + "/" + name + dryRun, contentType: mediaMerge,
		body: `{"endpoints":[{` + endpoint + `}]}`,
	}
}

// without changes an EndpointSlice to one without endpoints.
func without(name, endpoints string) request {
	r := lead(name, "")
	r.body = `{"endpoints":` + endpoints + `}`
	return r
}

// leadTo creates an EndpointSlice of c1's own Service with an address.
func leadTo(addressType, address string) request {
	r := create(slice, endpointsOf("of-c1", "c1"))
	r.body = strings.NewReplacer("IPv4", addressType, "10.1.2.3", address).Replace(r.body)
	return r
}

// bindClaim changes the volume of a claim.
func bindClaim(name string) request {
	return request{
		verb: "PATCH", path: claim.path() + "/" + name + dryRun, contentType: mediaMerge,
		body: `{"spec":{"volumeName":"of-another-team"}}`,
	}
}

// annotate adds an annotation without a meaning.
func annotate(k kind, name string) request {
	return patch(k, name, `"annotations":{"example.org/a":"b"}`)
}

func remove(k kind, name string) request {
	return request{verb: "DELETE", path: k.path() + "/" + name + dryRun}
}

// removeWith deletes with options. Beside a body, API servers ignore the query.
func removeWith(options string, k kind, name string) request {
	r := remove(k, name)
	r.contentType, r.body = mediaJSON, `{"apiVersion":"v1","kind":"DeleteOptions","dryRun":["All"],`+options+`}`
	return r
}

func removeAll(k kind) request { return request{verb: "DELETE", path: k.path() + dryRun} }

func get(k kind, name string) request { return request{verb: "GET", path: k.path() + "/" + name} }

func list(k kind) request { return request{verb: "GET", path: k.path()} }

func watch(k kind) request {
	return request{verb: "GET", path: k.path() + "?watch=true&timeoutSeconds=1"}
}

// post sends an object of another kind to a subresource.
func post(k kind, nameAndQuery string) request {
	return request{verb: "POST", path: k.path() + "/" + nameAndQuery, contentType: mediaJSON, body: `{}`}
}

// tokenFor makes a token of a service account.
func tokenFor(name string, seconds int) request {
	r := post(account, name+"/token"+dryRun)
	r.body = fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest",`+
		`"spec":{"expirationSeconds":%d}}`, seconds)
	return r
}

// read reads a path.
func read(path string) request { return request{verb: "GET", path: path} }
