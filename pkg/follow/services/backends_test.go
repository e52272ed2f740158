package services

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// alsoTo adds a path to an Ingress.
func alsoTo(backend networkingv1.IngressBackend) func(*networkingv1.Ingress) {
	return func(i *networkingv1.Ingress) {
		rule := networkingv1.IngressRule{}
		rule.HTTP = &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{Backend: backend}}}
		i.Spec.Rules = append(i.Spec.Rules, rule)
	}
}

// api returns a Service that is the second backend of an Ingress.
func api(options ...func(*corev1.Service)) *corev1.Service {
	return web(append(options, func(s *corev1.Service) { s.Name = "api" })...)
}

func toAPI() func(*networkingv1.Ingress) {
	return alsoTo(networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "api"}})
}

func TestABackendThatIsNotFollowed(t *testing.T) {
	const annotateService = `not copied: its backend Service "api" is not followed to this target; annotate the ` +
		`Service with multicluster.admiralty.io/global: "true", or delete the backend`
	const nowhere = `not copied: its backend Service "api" is not followed to any target; delete the backend, or, `
	const noService = "not copied: it has a backend that is no Service, which is not carried; delete the backend, or, "
	const annotateIngress = `annotate the Ingress with multicluster.admiralty.io/global: "true"`
	global := web(everywhere())
	both := pathTo("web", toAPI())
	bucket := alsoTo(networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket"}})
	exported := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}}
	for name, test := range map[string]struct {
		from, copies []client.Object
		want         []string // parts of the message; none if there is no error
	}{
		"one of two Services": {
			from: []client.Object{global, api(), both}, copies: []client.Object{copyOf(t, global)},
			want: []string{annotateService},
		},
		"a Service without a selector": {
			from: []client.Object{global, api(selecting(nil)), both}, copies: []client.Object{copyOf(t, global)},
			want: []string{annotateService},
		},
		"a Service that does not exist": {
			from: []client.Object{global, both}, copies: []client.Object{copyOf(t, global)},
			want: []string{nowhere, annotateIngress},
		},
		"a Service that no target gets": {
			from:   []client.Object{global, api(external, everywhere()), both},
			copies: []client.Object{copyOf(t, global)}, want: []string{nowhere, annotateIngress},
		},
		"a Service that a mesh exports": {
			from: []client.Object{global, api(), exported, both}, copies: []client.Object{copyOf(t, global)},
			want: []string{nowhere, annotateIngress},
		},
		"a resource": {
			from:   []client.Object{global, pathTo("web", bucket)},
			copies: []client.Object{copyOf(t, global)}, want: []string{noService, annotateIngress},
		},
		"a Service and a resource": {
			from:   []client.Object{global, api(), pathTo("web", bucket, toAPI())},
			copies: []client.Object{copyOf(t, global)}, want: []string{annotateService},
		},
		"none is followed":             {from: []client.Object{web(), api(), both}},
		"none is followed, a resource": {from: []client.Object{web(), pathTo("web", bucket)}},
		"all are followed": {
			from:   []client.Object{global, api(everywhere()), both},
			copies: []client.Object{copyOf(t, global), copyOf(t, api(everywhere()))},
		},
		"the one that is followed is not there yet": {from: []client.Object{global, api(), both}},
		"the other one is followed, and not there yet": {
			from: []client.Object{global, api(everywhere()), both}, copies: []client.Object{copyOf(t, global)},
		},
		"the copy is still there": {
			from: []client.Object{global, api(), both}, copies: []client.Object{copyOf(t, global), ingressCopy("web")},
		},
		"a global Ingress": {
			from: []client.Object{
				global, api(), pathTo("web", toAPI(), withAnnotation(v1alpha1.AnnotationGlobal, "true")),
			},
			copies: []client.Object{copyOf(t, global)},
		},
		"a copy of the old system": {
			from: []client.Object{
				global, api(), pathTo("web", toAPI(), withAnnotation(v1alpha1.AnnotationIsDelegate, "")),
			},
			copies: []client.Object{copyOf(t, global)},
		},
		"no Ingress": {from: []client.Object{global, api()}, copies: []client.Object{copyOf(t, global)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.from, test.copies)
			from, _ := w.originals.ingress(shop("entry"))
			got := refusal(w.c2.missingBackend(from, w.c2.existing[""]))
			if (got == "") != (len(test.want) == 0) {
				t.Errorf("message %q", got)
			}
			for _, part := range test.want {
				if !strings.Contains(got, part) {
					t.Errorf("message %q, want %q", got, part)
				}
			}
		})
	}
}

// TestABackendThatASiblingFollows has two targets of one cluster. One of them holds the delegates of a Service.
func TestABackendThatASiblingFollows(t *testing.T) {
	global := web(everywhere())
	made, err := toC2().service(api(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, []client.Object{
		global, api(), pathTo("web", toAPI()), virtualNode("admiralty-c3"),
		endpointsOf("api-1", "admiralty-c3", func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelServiceName] = "api"
		}),
	}, []client.Object{copyOf(t, global), madeFor(made, "c3")})
	w.c2.target.ClusterID = "x"
	from, _ := w.originals.ingress(shop("entry"))
	if w.c2.missingBackend(from, w.c2.existing[""]) == nil {
		t.Error("nothing is said without a sibling")
	}
	sibling, _ := w.engage(t, targetOf("c3", "x"))
	sibling.chaperons["shop"] = sets.New("api-1")
	if err := w.c2.missingBackend(from, w.c2.existing[""]); err != nil {
		t.Errorf("error %v", err)
	}
}

// TestAnIngressThatIsNotCopiedHasAnEvent has two Services that are followed one after the other.
func TestAnIngressThatIsNotCopiedHasAnEvent(t *testing.T) {
	global := web(everywhere())
	w := newWorld(t, []client.Object{global, api(), pathTo("web", toAPI())}, []client.Object{copyOf(t, global)})
	w.c2.prepared.Store(true)
	for step, test := range []struct {
		later  time.Duration
		all    bool // whether the other Service is followed, too
		wait   time.Duration
		events int
	}{
		{later: 0, wait: grace},
		{later: time.Minute, all: true},
		{later: time.Minute, wait: grace},
		{later: grace - 1, wait: 1},
		{later: 1, wait: refusedRetry, events: 1},
		{later: refusedRetry, wait: refusedRetry},
		{later: engage.SayAgainAfter - refusedRetry - 1, wait: refusedRetry},
		{later: 1, wait: refusedRetry, events: 1},
		{later: refusedRetry, all: true},
	} {
		w.clock.SetTime(w.clock.Now().Add(test.later))
		other := api()
		if test.all {
			other = api(everywhere())
		}
		w.originals = originalsOf(t, global, other, pathTo("web", toAPI()))
		result, err := w.c2.Reconcile(t.Context(), item{kindIngress, shop("entry")})
		if err != nil || result.RequeueAfter != test.wait {
			t.Errorf("step %d: result %v, error %v, want %s", step, result, err, test.wait)
		}
		if got := len(w.events.Events); got != test.events {
			t.Errorf("step %d: %d events, want %d", step, got, test.events)
		}
		for len(w.events.Events) > 0 {
			if event := <-w.events.Events; !strings.Contains(event, `its backend Service "api" is not followed`) {
				t.Errorf("step %d: event %q", step, event)
			}
		}
	}
	if len(w.there.writes) > 0 || len(w.c2.partly) > 0 || len(w.c2.noted) > 0 {
		t.Errorf("writes %v, partly %v, noted %v", w.there.writes, w.c2.partly, w.c2.noted)
	}
}
