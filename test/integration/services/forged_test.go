package services

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// forgedAddress stands for that of the source's API server.
const forgedAddress = "192.0.2.99"

// forgery answers lists of a target of one namespace with copies in another namespace.
type forgery struct {
	namespace, other string
	lists            atomic.Int32 // that were answered so
}

// answer is for env.Intercept.
func (f *forgery) answer(r *http.Request) *http.Response {
	kinds := map[string][2]string{
		"/api/v1/namespaces/" + f.namespace + "/services":                     {"v1", "ServiceList"},
		"/apis/networking.k8s.io/v1/namespaces/" + f.namespace + "/ingresses": {"networking.k8s.io/v1", "IngressList"},
		"/apis/discovery.k8s.io/v1/namespaces/" + f.namespace + "/endpointslices": {
			"discovery.k8s.io/v1", "EndpointSliceList",
		},
	}
	kind, ok := kinds[r.URL.Path]
	switch query := r.URL.Query(); {
	case !ok || r.Method != http.MethodGet || strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata"):
		return nil
	case query.Get("sendInitialEvents") != "":
		return respond(r, http.StatusBadRequest, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":400}`)
	case query.Get("watch") != "":
		return nil
	}
	f.lists.Add(1)
	var items []string
	for _, one := range [][2]string{{f.other, "web"}, {f.namespace, "web"}, {"default", "kubernetes"}} {
		if one[0] == f.namespace && kind[1] != "EndpointSliceList" {
			continue
		}
		items = append(items, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q,"uid":"1","labels":{%q:%q,%q:%q}},`+
			`"addressType":"IPv4","endpoints":[{"addresses":[%q]}]}`, one[0], one[1], v1alpha1.LabelParentClusterID,
			sourceID, discoveryv1.LabelServiceName, one[1], forgedAddress))
	}
	return respond(r, http.StatusOK, fmt.Sprintf(
		`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"1"},"items":[%s]}`,
		kind[0], kind[1], strings.Join(items, ",")))
}

func respond(r *http.Request, code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// lied engages a target of a namespace, whose server lists copies of Service and Ingress "web" in another namespace. It
// returns when the lists have had their effects.
func lied(t *testing.T) (liar *env.Target, other string) {
	t.Helper()
	namespace := env.Namespace(t, env.Enabled(), source, cluster2)
	other = env.Namespace(t, env.Enabled(), source, cluster2)
	create(t, other, "web", annotated(v1alpha1.AnnotationGlobal))
	env.Create(t, source, globalIngress(other))
	forged := &forgery{namespace: namespace, other: other}
	liar = newTarget(namespace, "liar", cluster2)
	env.Ensure(t, source, env.VirtualNode(liar.NodeName))
	liar.Login = env.Intercept(cluster2.User(t, sourceUser), forged.answer)
	liar.Engage(t, registry)
	waitForWorkers(t, namespace, liar)
	if got := forged.lists.Load(); got < 2 {
		t.Fatalf("%d lists were forged", got)
	}
	return liar, other
}

// globalIngress returns an Ingress with a certificate that goes to all targets.
func globalIngress(namespace string) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: env.Meta(namespace, "web")}
	ingress.Annotations = map[string]string{v1alpha1.AnnotationGlobal: "true"}
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "certificate"}}
	ingress.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	return ingress
}

func TestTheServersNamespacesAreNotBelieved(t *testing.T) {
	liar, other := lied(t)
	service := newService(other, "web")
	expectNoCopy(t, liar, service)
	expectNoCopy(t, liar, globalIngress(other))
	if got := reports(service, liar, ""); len(got) > 0 {
		t.Errorf("the Service was reconciled: %q", got)
	}
}

func TestEndpointsOfATargetDoNotReachTheSource(t *testing.T) {
	lied(t)
	all := &discoveryv1.EndpointSliceList{}
	env.Must(t, source.Client.List(t.Context(), all))
	for i := range all.Items {
		for _, endpoint := range all.Items[i].Endpoints {
			if slices.Contains(endpoint.Addresses, forgedAddress) {
				t.Errorf("EndpointSlice %s/%s has the target's address", all.Items[i].Namespace, all.Items[i].Name)
			}
		}
	}
}

func TestTLSSecretsDoNotFollowForgedIngresses(t *testing.T) {
	liar, other := lied(t)
	if got := secrets.of(liar, globalIngress(other)); len(got) > 0 {
		t.Errorf("Secrets %q are kept in the target", got)
	}
}
