package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func targetID() string { return translate.TargetID(types.NamespacedName{Name: "c2"}) }

func toC2() desired {
	return desired{
		origin:   translate.Source{ClusterID: "c1"},
		target:   types.NamespacedName{Name: "c2"},
		nodeName: "admiralty-c2",
	}
}

func families(policy corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &policy, families }
}

func addresses(addresses ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = addresses[0], addresses }
}

func TestTheCopyOfAService(t *testing.T) {
	delegates := selecting(
		map[string]string{"multicluster.admiralty.io/app": "web", v1alpha1.LabelParentClusterID: "c1"},
	)
	ports := func(nodePort int32) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.Ports = []corev1.ServicePort{
				{
					Name:        "http",
					Port:        80,
					TargetPort:  intstr.FromString("web"),
					NodePort:    nodePort,
					AppProtocol: ptr.To("h2c"),
				},
			}
		}
	}
	for name, test := range map[string]struct{ original, existing, want *corev1.Service }{
		"the copy selects delegates, and the target gives it an address": {
			original: web(ports(0), addresses("10.0.0.1")), want: web(delegates, ports(0)),
		},
		"the copy of a load balancer is no load balancer": {
			original: web(ports(30080), addresses("10.0.0.1"), func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass, s.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, ptr.To(
					"cloud",
				), []string{
					"192.0.2.1",
				}
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.Spec.HealthCheckNodePort = 30081
			}),
			want: web(delegates, ports(0)),
		},
		"the copy of a headless Service is headless": {
			original: web(addresses(corev1.ClusterIPNone)),
			want:     web(delegates, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }),
		},
		"the fields about clients are kept": {
			original: web(treatment), want: web(delegates, treatment),
		},
		"IP families are asked for": {
			original: web(families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol)),
			want: web(
				delegates,
				families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol),
			),
		},
		"addresses and IP families that the target chose are kept": {
			original: web(
				addresses("10.0.0.1", "fd00::1"),
				families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol),
			),
			existing: web(addresses("10.96.0.7"), families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol)),
			want: web(
				delegates,
				addresses("10.96.0.7"),
				families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol),
			),
		},
		"a second IP family may come later": {
			original: web(families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)),
			existing: web(addresses("10.96.0.7"), families(corev1.IPFamilyPolicySingleStack, corev1.IPv4Protocol)),
			want: web(
				delegates,
				addresses("10.96.0.7"),
				families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol),
			),
		},
		"a Service without a selector has a copy without one": {
			original: web(selecting(nil)), want: web(selecting(nil)),
		},
		"the user's selector of a rewritten Service counts": {
			original: web(delegates, annotated(v1alpha1.AnnotationOriginalSelector, "app=web")), want: web(delegates),
		},
		"labels that delegates keep are selected as they are": {
			original: web(annotated(v1alpha1.AnnotationNoPrefixLabelRegexp, "^app=")),
			want:     web(selecting(map[string]string{"app": "web", v1alpha1.LabelParentClusterID: "c1"})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := toC2().service(test.original, test.existing)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want.Spec, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func treatment(s *corev1.Service) {
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
		ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)},
	}
	s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferSameZone)
	s.Spec.PublishNotReadyAddresses = true
}

func TestATargetThatRefusesFamiliesGetsAnyOfThem(t *testing.T) {
	got := anyFamily(web(families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)))
	if diff := cmp.Diff(web(families(corev1.IPFamilyPolicyPreferDualStack)).Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestLabelsAndAnnotationsOfCopies(t *testing.T) {
	labels := map[string]string{
		"app":                          "web",
		"app.kubernetes.io/instance":   "shop",
		"app.kubernetes.io/managed-by": "Helm",
	}
	annotations := map[string]string{
		"mine/a":                                                "1",
		"argocd.argoproj.io/tracking-id":                        "shop",
		"meta.helm.sh/release-name":                             "shop",
		corev1.LastAppliedConfigAnnotation:                      "{}",
		v1alpha1.AnnotationOriginalSelector:                     "app=web",
		v1alpha1.AnnotationGlobal:                               "true",
		"service.beta.kubernetes.io/aws-load-balancer-type":     "nlb",
		"service.kubernetes.io/topology-mode":                   "Auto",
		"cert-manager.io/cluster-issuer":                        "letsencrypt",
		"nginx.ingress.kubernetes.io/proxy-body-size":           "1m",
		"service.kubernetes.io/load-balancer-cleanup-something": "x",
	}
	wantLabels := map[string]string{
		"app":                    "web",
		v1alpha1.LabelTargetID:   targetID(),
		v1alpha1.LabelTargetHash: targetID()[:10],
	}
	kept := map[string]string{
		"mine/a":                              "1",
		"service.kubernetes.io/topology-mode": "Auto",
		"nginx.ingress.kubernetes.io/proxy-body-size": "1m",
		v1alpha1.AnnotationGlobal:                     "true",
		v1alpha1.AnnotationIsDelegate:                 "",
	}
	with := func(key string) map[string]string {
		out := map[string]string{key: annotations[key]}
		for k, v := range kept {
			out[k] = v
		}
		return out
	}
	users := []metav1.ManagedFieldsEntry{
		{
			Manager:  "kubectl",
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:multicluster.admiralty.io/global":{}}}}`),
		},
	}
	service, err := toC2().service(
		web(func(s *corev1.Service) { s.Labels, s.Annotations, s.ManagedFields = labels, annotations, users }),
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantLabels, service.Labels); diff != "" {
		t.Errorf("labels of a Service (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(with("cert-manager.io/cluster-issuer"), service.Annotations); diff != "" {
		t.Errorf("annotations of a Service (-want +got):\n%s", diff)
	}
	ingress := toC2().ingress(
		&networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations, ManagedFields: users},
		},
		nil,
	)
	want := with("service.beta.kubernetes.io/aws-load-balancer-type")
	want["service.kubernetes.io/load-balancer-cleanup-something"] = "x"
	if diff := cmp.Diff(want, ingress.Annotations); diff != "" {
		t.Errorf("annotations of an Ingress (-want +got):\n%s", diff)
	}
}

func TestTheEndpointsOfOtherClusters(t *testing.T) {
	on := func(node, address string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address},
			NodeName:  ptr.To(node),
			TargetRef: &corev1.ObjectReference{Kind: "Pod"},
			Conditions: discoveryv1.EndpointConditions{
				Ready:       ptr.To(false),
				Serving:     ptr.To(true),
				Terminating: ptr.To(true),
			},
			Hostname: ptr.To("web-0"),
			Zone:     ptr.To("a"),
			Hints: &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "a"}},
				ForNodes: []discoveryv1.ForNode{{Name: node}},
			},
		}
	}
	there := func(address string) discoveryv1.Endpoint {
		e := on("", address)
		e.NodeName, e.TargetRef, e.Hints.ForNodes = nil, nil, nil
		return e
	}
	slice := func(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{
				discoveryv1.LabelServiceName: "web",
				discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
				corev1.IsHeadlessService:     "",
			}},
			AddressType: discoveryv1.AddressTypeIPv6,
			Endpoints:   endpoints,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		}
	}
	got := toC2().endpoints(original{
		service: web(annotated(v1alpha1.AnnotationGlobal, "true")),
		slices: []*discoveryv1.EndpointSlice{
			slice("web-1", on("admiralty-c2", "fd00::1"), on("admiralty-c3", "fd00::2"), on("node", "fd00::3")),
			slice("web-2", on("admiralty-c2", "fd00::4")),
		},
	})
	if len(got) != 1 {
		t.Fatalf("%d slices, want 1: the other has only what the target has itself", len(got))
	}
	for _, from := range got {
		want := slice(from.Name, there("fd00::2"), there("fd00::3"))
		want.TypeMeta = from.TypeMeta
		want.Labels[discoveryv1.LabelManagedBy] = v1alpha1.FieldOwner
		want.Labels[v1alpha1.LabelTargetID], want.Labels[v1alpha1.LabelTargetHash] = targetID(), targetID()[:10]
		want.Annotations = map[string]string{v1alpha1.AnnotationGlobal: "true"}
		if diff := cmp.Diff(want, from); diff != "" {
			t.Errorf("slice (-want +got):\n%s", diff)
		}
		other := toC2()
		other.target.Name = "other"
		elsewhere := []*discoveryv1.EndpointSlice{slice("web-1", on("node", "fd00::3"))}
		if _, same := other.endpoints(original{service: web(), slices: elsewhere})[from.Name]; same {
			t.Error("two targets that lead to one cluster would write the same slice")
		}
	}
}

func TestBackends(t *testing.T) {
	service := func(name string) networkingv1.IngressBackend {
		return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name}}
	}
	rule := func(backends ...networkingv1.IngressBackend) networkingv1.IngressRule {
		http := &networkingv1.HTTPIngressRuleValue{}
		for _, backend := range backends {
			http.Paths = append(http.Paths, networkingv1.HTTPIngressPath{Backend: backend})
		}
		return networkingv1.IngressRule{
			Host:             "shop.example",
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: http},
		}
	}
	for name, test := range map[string]struct {
		spec networkingv1.IngressSpec
		want []string
		all  bool
	}{
		"each Service is listed once": {
			spec: networkingv1.IngressSpec{
				Rules: []networkingv1.IngressRule{rule(service("b"), service("a")), rule(service("b"))},
			},
			want: []string{"a", "b"}, all: true,
		},
		"a rule that is only a host, with a default backend": {
			spec: networkingv1.IngressSpec{
				DefaultBackend: ptr.To(service("a")), Rules: []networkingv1.IngressRule{{Host: "shop.example"}},
			},
			want: []string{"a"}, all: true,
		},
		"a backend that is no Service": {
			spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{
				rule(
					service("a"),
					networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket"}},
				),
			}},
			want: []string{"a"},
		},
		"no backend": {want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, all := backends(&networkingv1.Ingress{Spec: test.spec})
			if diff := cmp.Diff(test.want, got); diff != "" || all != test.all {
				t.Errorf("all: %t, want %t; Services (-want +got):\n%s", all, test.all, diff)
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	spec := networkingv1.IngressSpec{
		TLS: []networkingv1.IngressTLS{{SecretName: "b"}, {SecretName: "a"}, {SecretName: "b"}, {}},
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"each Secret is listed once": {want: []string{"a", "b"}},
		"Secrets that the target has itself are not listed": {
			annotations: map[string]string{v1alpha1.AnnotationUseExisting: "secrets/a"},
			want:        []string{"b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := certificates(
				&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}, Spec: spec},
			)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Secrets (-want +got):\n%s", diff)
			}
		})
	}
}
