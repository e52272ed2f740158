package services

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	sliceHashLength = 10
	// annotationIngressClass names the controller of an Ingress, as before there were IngressClasses.
	annotationIngressClass = "kubernetes.io/ingress.class"
)

// desired makes the desired objects of one target. It is pure.
type desired struct {
	origin   translate.Source
	target   types.NamespacedName
	nodeName string // of the target's virtual node
}

// service returns the copy of a Service. If a copy exists, the new one keeps the values that the target chose.
func (d desired) service(original, existing *corev1.Service) (*corev1.Service, error) {
	user, err := userSelector(original)
	if err != nil {
		return nil, err
	}
	selector, err := translate.DelegateSelector(user, original.Annotations, d.origin)
	if err != nil {
		return nil, fmt.Errorf("rewriting the selector: %w", err)
	}
	from := original.Spec
	spec := corev1.ServiceSpec{
		Type:                     corev1.ServiceTypeClusterIP,
		Selector:                 selector,
		Ports:                    slices.Clone(from.Ports),
		SessionAffinity:          from.SessionAffinity,
		SessionAffinityConfig:    from.SessionAffinityConfig,
		PublishNotReadyAddresses: from.PublishNotReadyAddresses,
		IPFamilyPolicy:           from.IPFamilyPolicy,
		IPFamilies:               from.IPFamilies,
		InternalTrafficPolicy:    from.InternalTrafficPolicy,
		TrafficDistribution:      from.TrafficDistribution,
	}
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	if headless(original) {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	if existing != nil {
		takeOver(&spec, existing.Spec)
	}
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: d.meta(original, isPublishing),
		Spec:       spec,
	}, nil
}

func headless(service *corev1.Service) bool { return service.Spec.ClusterIP == corev1.ClusterIPNone }

// takeOver takes over the addresses and families. The target allocated them by what its network can do.
func takeOver(spec *corev1.ServiceSpec, existing corev1.ServiceSpec) {
	spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies = existing.ClusterIP, existing.ClusterIPs, existing.IPFamilies
	if ptr.Deref(spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicyRequireDualStack {
		prefer(spec, existing.IPFamilyPolicy)
	}
}

// prefer makes dual stack preferred instead of required, if the target does not require it.
func prefer(spec *corev1.ServiceSpec, existing *corev1.IPFamilyPolicy) {
	if ptr.Deref(existing, "") != corev1.IPFamilyPolicyRequireDualStack {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	}
}

// anyFamily returns the copy of a Service for a target that refuses the Service's IP families.
func anyFamily(service *corev1.Service) *corev1.Service {
	service = service.DeepCopy()
	service.Spec.IPFamilies = nil
	if ptr.Deref(service.Spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicyRequireDualStack {
		prefer(&service.Spec, nil)
	}
	return service
}

// endpoints returns the EndpointSlices of a followed Service, by name, without the endpoints in the target itself.
// Slices of a global Service are global, so that the target keeps them where it has no delegates. Slices of host names
// have no meaning for a Service, and targets refuse them.
func (d desired) endpoints(from original) map[string]*discoveryv1.EndpointSlice {
	out := map[string]*discoveryv1.EndpointSlice{}
	preferred := preferenceOf(from.service)
	for _, original := range from.slices {
		if original.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		slice := &discoveryv1.EndpointSlice{
			TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta:  d.sliceMeta(original),
			AddressType: original.AddressType,
			Ports:       original.Ports,
		}
		if global(from.service) {
			slice.Annotations = map[string]string{v1alpha1.AnnotationGlobal: "true"}
		}
		for i := range original.Endpoints {
			if endpoint := &original.Endpoints[i]; ptr.Deref(endpoint.NodeName, "") != d.nodeName {
				slice.Endpoints = append(slice.Endpoints, bare(endpoint, preferred))
			}
		}
		if len(slice.Endpoints) > 0 {
			out[slice.Name] = slice
		}
	}
	return out
}

// bare returns an endpoint without its node and pod, which the target does not know.
func bare(original *discoveryv1.Endpoint, preferred preference) discoveryv1.Endpoint {
	endpoint := *original.DeepCopy()
	endpoint.NodeName, endpoint.TargetRef = nil, nil
	endpoint.Hints = preferred.hints(original)
	return endpoint
}

func (d desired) sliceMeta(original *discoveryv1.EndpointSlice) metav1.ObjectMeta {
	service := original.Labels[discoveryv1.LabelServiceName]
	sum := sha256.Sum256([]byte(d.origin.ClusterID + "/" + translate.TargetHash(d.target) + "/" + original.Name))
	labels := map[string]string{
		discoveryv1.LabelServiceName: service,
		discoveryv1.LabelManagedBy:   v1alpha1.FieldOwner,
		v1alpha1.LabelTargetID:       translate.TargetID(d.target),
		v1alpha1.LabelTargetHash:     translate.TargetHash(d.target),
	}
	if value, ok := original.Labels[corev1.IsHeadlessService]; ok {
		labels[corev1.IsHeadlessService] = value
	}
	return metav1.ObjectMeta{
		Namespace: original.Namespace,
		Name:      service + "-" + hex.EncodeToString(sum[:])[:sliceHashLength],
		Labels:    labels,
	}
}

// ingress returns the copy of an Ingress. If a copy exists, the new one keeps the class that the target chose. API
// servers choose a class at creation only, and none if the Ingress has the annotation (defaultingressclass in
// plugin/pkg/admission/network of k8s.io/kubernetes).
func (d desired) ingress(original, existing *networkingv1.Ingress) *networkingv1.Ingress {
	spec := *original.Spec.DeepCopy()
	_, annotated := original.Annotations[annotationIngressClass]
	if spec.IngressClassName == nil && !annotated && existing != nil {
		spec.IngressClassName = existing.Spec.IngressClassName
	}
	return &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: d.meta(original, isCertificate),
		Spec:       spec,
	}
}

// backends returns the Services that an Ingress names. It also says whether there are any, and no other backends.
func backends(ingress *networkingv1.Ingress) (services []string, all bool) {
	names := sets.New[string]()
	all = true
	add := func(backend *networkingv1.IngressBackend) {
		if backend.Service == nil {
			all = false
			return
		}
		names.Insert(backend.Service.Name)
	}
	if ingress.Spec.DefaultBackend != nil {
		add(ingress.Spec.DefaultBackend)
	}
	for _, rule := range ingress.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for i := range rule.HTTP.Paths {
			add(&rule.HTTP.Paths[i].Backend)
		}
	}
	return sets.List(names), all && len(names) > 0
}

// certificates returns the Secrets that an Ingress names, less those that the target has of its own. An Ingress names
// these by the same annotation as a pod.
func certificates(ingress *networkingv1.Ingress) []string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: ingress.Annotations}}
	for _, tls := range ingress.Spec.TLS {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: tls.SecretName})
	}
	var names []string
	for _, need := range needs.Followed(pod) {
		if need.Resource == needs.Secrets {
			names = append(names, need.Name)
		}
	}
	return names
}
