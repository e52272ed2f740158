package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	account, serviceName, ingressName = "runner", "web", "entry"

	kindService, kindIngress, kindSlice = "Service", "Ingress", "EndpointSlice"
)

// TestServicesReachPodsWhateverGoesWrong has a source, two targets, a Service of three pods, an Ingress with a
// certificate, and a ServiceAccount.
func TestServicesReachPodsWhateverGoesWrong(t *testing.T) {
	seen := &coverage{}
	t.Cleanup(func() { seen.report(t) })
	eachOf(t, 20, func(t *testing.T, seed uint64) {
		t.Helper()
		trySupply(t, seed, true, seen)
	})
}

// followServices starts the part of the source's manager that copies Services and Ingresses.
func (s *supplier) followServices(m soleManager, toSource *rest.Config) {
	reached, err := client.New(toSource, client.Options{Scheme: scheme.Scheme, Mapper: mapperOfNeeds()})
	if err != nil {
		panic(err)
	}
	s.services, err = services.New(services.Options{
		Client: reached, APIReader: reached, Config: toSource, Mapper: mapperOfNeeds(),
		Source: translate.Source{ClusterID: sourceID}, KeepSecrets: s.keepSecrets, Clock: evenly{},
		Recorder: objections{s}, Logger: logr.Discard(), Workers: 2,
	})
	if err != nil {
		panic(err)
	}
	s.registry.Observe(s.services)
	_ = m.Add(s.services) // It does not fail.
}

// objections notes the events which say that a target cannot have a Service or an Ingress.
type objections struct{ *supplier }

// Eventf notes the kind of the object, and the targets that the message names.
func (o objections) Eventf( //nolint:revive // The interface has so many arguments.
	about, _ runtime.Object, _, reason, _, note string, args ...any,
) {
	object, ok := about.(client.Object)
	if !ok || reason != services.ReasonNotFollowed {
		return
	}
	message := fmt.Sprintf(note, args...)
	o.note(func() {
		for _, k := range o.world.sites {
			if strings.Contains(message, nodePrefix+k.name) {
				o.world.objected[k.name+"/"+kindOf(object)] = true
			}
		}
	})
}

// keepSecrets is what package follow does.
func (s *supplier) keepSecrets(
	ctx context.Context, target *engage.Target, ingress types.NamespacedName, names []string,
) error {
	refs := make([]needs.Ref, len(names))
	for i, name := range names {
		refs[i] = needs.Ref{Resource: needs.Secrets, Name: name}
	}
	return s.objects.Keep(ctx, target, ingress.Namespace, "ingress/"+ingress.Name, refs)
}

// chaperonsOf returns the source's cache of the PodChaperons in a target.
func (s *supplier) chaperonsOf(ctx context.Context, k *site) *lagging {
	chaperons := &lagging{
		name: s.name + "'s cache of PodChaperons in " + k.name, ctx: ctx, from: k.cluster, kind: kindChaperon,
		selects: everything, objects: map[ref]client.Object{},
	}
	chaperons.relist()
	s.caches = append(s.caches, chaperons)
	return chaperons
}

func virtualNodes() []client.Object {
	var all []client.Object
	for _, name := range []string{"c1", "c2"} {
		node := &metav1.PartialObjectMetadata{}
		node.Name = nodePrefix + name
		node.Labels = map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
		all = append(all, node)
	}
	return all
}

// managed notes which labels and annotations the product wrote: all those that there are.
func managed(o client.Object) client.Object {
	switch o.(type) {
	case *corev1.Service, *networkingv1.Ingress, *discoveryv1.EndpointSlice:
	default:
		return o
	}
	keys := func(all map[string]string) map[string]any {
		fields := map[string]any{}
		for key := range all {
			fields["f:"+key] = map[string]any{}
		}
		return fields
	}
	fields, err := json.Marshal(map[string]any{"f:metadata": map[string]any{
		"f:labels": keys(o.GetLabels()), "f:annotations": keys(o.GetAnnotations()),
	}})
	if err != nil {
		panic(err)
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldOwner, Operation: metav1.ManagedFieldsOperationUpdate,
		FieldsV1: metav1.NewFieldsV1(string(fields)),
	}})
	return o
}

func isHeadless(o client.Object) bool {
	service, ok := o.(*corev1.Service)
	return ok && service.Spec.ClusterIP == corev1.ClusterIPNone
}

// newService returns a Service with a new port.
func (w *supply) newService(headless bool) *corev1.Service {
	w.version++
	service := &corev1.Service{ObjectMeta: metaOf(serviceName), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": serviceName}, ClusterIP: "10.0.0.1",
		Ports: []corev1.ServicePort{{Port: int32(1000 + w.version)}},
	}}
	if headless {
		service.Spec.ClusterIP = corev1.ClusterIPNone
	}
	return service
}

// newIngress returns an Ingress with a new host.
func (w *supply) newIngress() *networkingv1.Ingress {
	w.version++
	path := networkingv1.HTTPIngressPath{Path: "/", Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: serviceName},
	}}
	rule := networkingv1.IngressRule{Host: fmt.Sprintf("v%d.example.com", w.version)}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}
	return &networkingv1.Ingress{ObjectMeta: metaOf(ingressName), Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{rule},
		TLS:   []networkingv1.IngressTLS{{SecretName: secretKey}},
	}}
}
