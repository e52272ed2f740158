package services

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// web is a Service that selects app=web.
func web(options ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "shop",
			Name:        "web",
			Annotations: map[string]string{},
			Labels:      map[string]string{},
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"}},
	}
	for _, option := range options {
		option(service)
	}
	return service
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

func selecting(selector map[string]string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Selector = selector }
}

func TestDecide(t *testing.T) {
	now := time.Unix(1000, 0)
	everywhere := annotated(v1alpha1.AnnotationGlobal, "true")
	for name, test := range map[string]struct {
		standing
		want decision
	}{
		"a Service that does not exist is not followed": {standing: standing{copied: true}},
		"a Service that selects proxies goes where delegates are": {
			standing: standing{original: original{service: web()}, proxied: true, holds: true},
			want:     decision{follow: true},
		},
		"a Service that selects proxies goes nowhere else": {
			standing: standing{original: original{service: web()}, proxied: true},
		},
		"a Service that selects no proxies stays": {
			standing: standing{original: original{service: web()}, holds: true},
		},
		"a Service without endpoints goes with the pod that waits for it": {
			standing: standing{original: original{service: web()}, holds: true, awaited: true},
			want:     decision{follow: true},
		},
		"a Service for which the first pod waits goes ahead, and stays for a while": {
			standing: standing{original: original{service: web()}, awaited: true, idle: now.Add(-grace)},
			want:     decision{follow: true, idle: now, wait: grace},
		},
		"an exported Service does not go, whoever waits": {
			standing: standing{original: original{service: web(), exported: true}, holds: true, awaited: true},
		},
		"a global Service goes everywhere": {
			standing: standing{original: original{service: web(everywhere)}}, want: decision{follow: true},
		},
		"a global Service without a selector goes everywhere": {
			standing: standing{original: original{service: web(everywhere, selecting(nil))}},
			want:     decision{follow: true},
		},
		"a copy without a reason stays for a while": {
			standing: standing{original: original{service: web()}, copied: true},
			want:     decision{follow: true, idle: now, wait: grace},
		},
		"a copy without a reason stays for the rest of the while": {
			standing: standing{
				original: original{service: web()},
				copied:   true,
				idle:     now.Add(-grace / 2),
			},
			want: decision{follow: true, idle: now.Add(-grace / 2), wait: grace / 2},
		},
		"a copy without a reason goes after the while": {
			standing: standing{original: original{service: web()}, copied: true, idle: now.Add(-grace)},
			want:     decision{idle: now.Add(-grace)},
		},
		"a copy with a reason again stays": {
			standing: standing{
				original: original{service: web()},
				copied:   true,
				proxied:  true,
				holds:    true,
				idle:     now.Add(-grace),
			},
			want: decision{follow: true},
		},
		"a copy without pods stays where delegates of others are": {
			standing: standing{original: original{service: web()}, copied: true, holds: true, idle: now.Add(-grace)},
			want:     decision{follow: true},
		},
		"a copy without pods whose original may not be followed goes": {
			standing: standing{original: original{service: web(), exported: true}, copied: true, holds: true},
		},
		"an exported Service is not followed": {
			standing: standing{
				original: original{service: web(everywhere), exported: true},
				proxied:  true,
				holds:    true,
				copied:   true,
			},
		},
		"an ExternalName Service is not followed": {
			standing: standing{
				original: original{
					service: web(everywhere, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
				},
			},
		},
		"the API server's Service is not followed": {
			standing: standing{
				original: original{
					service: web(everywhere, func(s *corev1.Service) { s.Namespace, s.Name = "default", "kubernetes" }),
				},
			},
		},
		"a copy of the old system is not followed on": {
			standing: standing{
				original: original{service: web(everywhere, annotated(v1alpha1.AnnotationIsDelegate, ""))},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.now = now
			if diff := cmp.Diff(test.want, decide(test.standing), cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProxied(t *testing.T) {
	pod := &corev1.ObjectReference{Kind: "Pod"}
	for name, test := range map[string]struct {
		endpoint discoveryv1.Endpoint
		want     bool
	}{
		"a pod on a virtual node, ready or not": {
			discoveryv1.Endpoint{NodeName: ptr.To("admiralty-c2"), TargetRef: pod},
			true,
		},
		"a pod on another node": {
			discoveryv1.Endpoint{NodeName: ptr.To("node"), TargetRef: pod},
			false,
		},
		"an address that somebody wrote": {discoveryv1.Endpoint{NodeName: ptr.To("admiralty-c2")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			from := original{
				slices: []*discoveryv1.EndpointSlice{{}, {Endpoints: []discoveryv1.Endpoint{test.endpoint}}},
			}
			if got := from.proxied(func(name string) bool { return name == "admiralty-c2" }); got != test.want {
				t.Errorf("proxied: got %t, want %t", got, test.want)
			}
		})
	}
}

func TestWhatWasRewrittenElectsWithoutEndpoints(t *testing.T) {
	none := func(string) bool { return false }
	if from := (original{service: web()}); from.electing(none) {
		t.Error("a Service without proxies is said to select some")
	}
	from := original{service: web(annotated(v1alpha1.AnnotationOriginalSelector, "app=web"))}
	if !from.electing(none) {
		t.Error("a rewritten Service, whose endpoints are delegates, is said to select no proxies")
	}
}
