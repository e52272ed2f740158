package services

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// pathTo returns the Ingress entry, whose only backend is a Service, with the certificate tls.
func pathTo(service string, options ...func(*networkingv1.Ingress)) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "entry", Annotations: map[string]string{}},
		Spec: networkingv1.IngressSpec{
			DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service}},
			TLS:            []networkingv1.IngressTLS{{SecretName: "tls"}},
		},
	}
	for _, option := range options {
		option(ingress)
	}
	return ingress
}

func ingressCopy(service string) *networkingv1.Ingress {
	return madeFor(toC2().ingress(pathTo(service), nil), "c2")
}

func withAnnotation(key, value string) func(*networkingv1.Ingress) {
	return func(i *networkingv1.Ingress) { i.Annotations[key] = value }
}

func TestTheCopyOfAnIngress(t *testing.T) {
	busy := apierrors.NewServiceUnavailable("busy")
	denied := deniedIngress("no")
	global := web(everywhere())
	service := copyOf(t, global)
	enabled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   "shop",
		Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}}
	for name, test := range map[string]struct {
		from, copies, live []client.Object
		refused            string // the message about the Service
		answers            map[string][]error
		noSecrets          error
		want               []string
		secrets            [][]string
		failed             bool
	}{
		"an Ingress goes where its Service is": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{service},
			want: []string{"create Ingress entry"}, secrets: [][]string{{"tls"}},
		},
		"an Ingress waits for its Service": {
			from: []client.Object{global, pathTo("web")}, secrets: [][]string{nil},
		},
		"an Ingress stays while its Service is made anew": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{ingressCopy("web")},
			secrets: [][]string{{"tls"}},
		},
		"an Ingress goes if the target refuses its Service": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{ingressCopy("web")},
			refused: "no", want: []string{"delete Ingress entry"}, secrets: [][]string{nil},
		},
		"an Ingress of a Service that is not followed goes": {
			from: []client.Object{pathTo("web")}, copies: []client.Object{service, ingressCopy("web")},
			want: []string{"delete Ingress entry"}, secrets: [][]string{nil},
		},
		"an Ingress with another backend, too, does not go there": {
			from: []client.Object{global, pathTo("web", func(i *networkingv1.Ingress) {
				i.Spec.Rules = []networkingv1.IngressRule{{IngressRuleValue: networkingv1.IngressRuleValue{
					HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{}}},
				}}}
			})}, copies: []client.Object{service}, secrets: [][]string{nil},
		},
		"a global Ingress goes everywhere": {
			from: []client.Object{pathTo("web", withAnnotation(v1alpha1.AnnotationGlobal, "true"))},
			want: []string{"create Ingress entry"}, secrets: [][]string{{"tls"}},
		},
		"a copy of the old system is not followed": {
			from: []client.Object{pathTo("web", withAnnotation(v1alpha1.AnnotationGlobal, "true"),
				withAnnotation(v1alpha1.AnnotationIsDelegate, ""))},
			secrets: [][]string{nil},
		},
		"a changed Ingress is changed": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{service, ingressCopy("other")},
			want:    []string{"patch Ingress entry: test uid, test parent-cluster-id, add spec"},
			secrets: [][]string{{"tls"}},
		},
		"an Ingress that has lost its mark gets it back": {
			from: []client.Object{global, pathTo("web")}, secrets: [][]string{{"tls"}},
			copies: []client.Object{service, withoutMark(ingressCopy("web"))},
			want:   []string{"patch Ingress entry: test uid, test parent-cluster-id, add followed-by"},
		},
		"an Ingress waits for its certificates": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{service}, noSecrets: busy,
			secrets: [][]string{{"tls"}}, failed: true,
		},
		"the certificates of an Ingress that the target refuses are kept no longer": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{service},
			answers: map[string][]error{"create Ingress entry": {denied}}, want: []string{"create Ingress entry"},
			secrets: [][]string{{"tls"}, nil}, failed: true,
		},
		"the certificates of an Ingress that could not be written yet are looked for again": {
			from: []client.Object{global, pathTo("web")}, copies: []client.Object{service},
			answers: map[string][]error{"create Ingress entry": {busy}}, want: []string{"create Ingress entry"},
			secrets: [][]string{{"tls"}, nil}, failed: true,
		},
		"the certificates that a copy names stay if the target refuses its change": {
			from: []client.Object{global, pathTo("web", func(i *networkingv1.Ingress) {
				i.Spec.TLS[0].SecretName = "new"
			})}, copies: []client.Object{service, ingressCopy("web")},
			answers: map[string][]error{"patch Ingress entry": {denied}},
			want:    []string{"patch Ingress entry: test uid, test parent-cluster-id, add spec"},
			secrets: [][]string{{"new"}, {"tls"}}, failed: true,
		},
		"an Ingress that is gone goes": {
			copies: []client.Object{ingressCopy("web")}, want: []string{"delete Ingress entry"},
			secrets: [][]string{nil},
		},
		"a cache that lacks an Ingress costs no copy": {
			copies: []client.Object{ingressCopy("web")}, live: []client.Object{enabled, pathTo("web")},
		},
		"an Ingress without a copy only needs no certificates": {secrets: [][]string{nil}},
		"a copy stays while its certificates are kept": {
			copies: []client.Object{ingressCopy("web")}, noSecrets: busy, secrets: [][]string{nil}, failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.from, test.copies)
			w.restart(test.live...)
			w.there.answers = test.answers
			if test.refused != "" {
				w.c2.noted[item{kindService, shop("web")}] = noted{note: test.refused}
			}
			var secrets [][]string
			w.options.KeepSecrets = func(
				_ context.Context, _ *engage.Target, _ types.NamespacedName, names []string,
			) error {
				secrets = append(secrets, names)
				return test.noSecrets
			}
			if err := w.c2.reconcileIngress(t.Context(), shop("entry")); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, w.there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.secrets, secrets); diff != "" {
				t.Errorf("Secrets (-want +got):\n%s", diff)
			}
			if n := len(secrets); n > 0 && w.c2.secured[shop("entry")] != (len(secrets[n-1]) > 0) {
				t.Errorf("secured: %v after %v", w.c2.secured, secrets)
			}
		})
	}
}

func deniedIngress(reason string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "ingresses"}, "entry", errors.New(reason))
}

// TestTheSecretsOfARefusedIngressAreNotWrittenAgain has a target that refuses an Ingress, and later takes it.
func TestTheSecretsOfARefusedIngressAreNotWrittenAgain(t *testing.T) {
	w := newWorld(t, []client.Object{pathTo("web", withAnnotation(v1alpha1.AnnotationGlobal, "true"))}, nil)
	var kept int
	w.options.KeepSecrets = func(
		_ context.Context, _ *engage.Target, _ types.NamespacedName, names []string,
	) error {
		if len(names) > 0 {
			kept++
		}
		return nil
	}
	const create, try = "create Ingress entry", "try to create Ingress entry"
	no, other := deniedIngress("no"), deniedIngress("other")
	for _, step := range []struct {
		what   string
		answer error
		writes []string
		kept   int
		events int
	}{
		{what: "the first attempt", answer: no, writes: []string{create}, kept: 1, events: 1},
		{what: "the same refusal", answer: no, writes: []string{try}},
		{what: "the same refusal once more", answer: no, writes: []string{try}},
		{what: "another refusal", answer: other, writes: []string{try, create}, kept: 1, events: 1},
		{what: "the same one again", answer: other, writes: []string{try}},
		{what: "the target takes it", writes: []string{try, create}, kept: 1},
		{what: "the copy is not seen yet", writes: []string{create}, kept: 1},
	} {
		w.there.writes, kept = nil, 0
		w.there.answers = map[string][]error{create: {step.answer}, try: {step.answer}}
		result, err := w.c2.Reconcile(t.Context(), item{kindIngress, shop("entry")})
		if err != nil || (result.RequeueAfter > 0) != (step.answer != nil) {
			t.Errorf("%s: result %v, error %v", step.what, result, err)
		}
		if diff := cmp.Diff(step.writes, w.there.writes); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.what, diff)
		}
		if kept != step.kept || len(w.events.Events) != step.events {
			t.Errorf("%s: %d writes of Secrets, %d events", step.what, kept, len(w.events.Events))
		}
		for len(w.events.Events) > 0 {
			<-w.events.Events
		}
	}
}

func TestTheCopyOfAnIngressKeepsTheClassThatTheTargetChose(t *testing.T) {
	class := func(name string) func(*networkingv1.Ingress) {
		return func(i *networkingv1.Ingress) { i.Spec.IngressClassName = &name }
	}
	old := withAnnotation("kubernetes.io/ingress.class", "old")
	for name, test := range map[string]struct {
		original, existing *networkingv1.Ingress
		want               string
	}{
		"a new copy has no class":                   {pathTo("web"), nil, ""},
		"a new copy has the class of its original":  {pathTo("web", class("a")), nil, "a"},
		"the target's default class stays":          {pathTo("web"), pathTo("web", class("b")), "b"},
		"the class of the original comes first":     {pathTo("web", class("a")), pathTo("web", class("b")), "a"},
		"an original that names its controller":     {pathTo("web", old), pathTo("web", class("b")), ""},
		"a target without a default class":          {pathTo("web"), pathTo("web"), ""},
		"a class that the copy does not yet follow": {pathTo("web", class("a")), pathTo("web"), "a"},
	} {
		t.Run(name, func(t *testing.T) {
			made := toC2().ingress(test.original, test.existing)
			if got := ptr.Deref(made.Spec.IngressClassName, ""); got != test.want {
				t.Errorf("class %q, want %q", got, test.want)
			}
		})
	}
	global := web(everywhere())
	defaulted := ingressCopy("web")
	defaulted.Spec.IngressClassName = ptr.To("b")
	w := newWorld(t, []client.Object{global, pathTo("web")}, []client.Object{copyOf(t, global), defaulted})
	w.c2.classes.Insert("b")
	if err := w.c2.reconcileIngress(t.Context(), shop("entry")); err != nil || len(w.there.writes) > 0 {
		t.Errorf("error %v, writes %v", err, w.there.writes)
	}
}

// answering is an API server that answers each read with an error.
type answering struct {
	client.Reader
	err error
}

func (a answering) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.err
}

func TestATargetThatLacksTheClassOfAnIngress(t *testing.T) {
	classes := schema.GroupResource{Resource: "ingressclasses"}
	for name, test := range map[string]struct {
		class   string
		answer  error
		refused bool
		failed  bool
		known   bool
	}{
		"no class":                    {},
		"a class that the target has": {class: "nginx", known: true},
		"a class that it lacks":       {class: "haproxy", refused: true, failed: true},
		"a target that does not let us look": {
			class: "haproxy", answer: apierrors.NewForbidden(classes, "haproxy", errors.New("no")),
		},
		"a target that does not answer": {
			class: "nginx", answer: apierrors.NewServiceUnavailable("busy"), failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := pathTo("web", withAnnotation(v1alpha1.AnnotationGlobal, "true"))
			if test.class != "" {
				from.Spec.IngressClassName = &test.class
			}
			w := newWorld(t, []client.Object{from}, nil)
			c, there := w.engage(
				t, targetOf("c3", ""), &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}},
			)
			c.existing[""] = copiesOf(t)
			if test.answer != nil {
				c.target.APIReader = answering{err: test.answer}
			}
			err := c.reconcileIngress(t.Context(), shop("entry"))
			if (err != nil) != test.failed || (refusal(err) != "") != test.refused {
				t.Errorf("error %v, refusal %q", err, refusal(err))
			}
			if diff := cmp.Diff([]string{"create Ingress entry"}, there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			c.target.APIReader = silent{}
			if again := c.checkClass(t.Context(), test.class); test.known && again != nil {
				t.Errorf("a class that was there is looked for again: %v", again)
			}
		})
	}
}

// TestNothingIsDecidedAboutAnIngressWithoutASource has a source that does not answer. So nobody knows whether the
// original exists.
func TestNothingIsDecidedAboutAnIngressWithoutASource(t *testing.T) {
	w := newWorld(t, nil, []client.Object{ingressCopy("web")})
	w.options.APIReader = silent{}
	if err := w.c2.reconcileIngress(t.Context(), shop("entry")); err == nil || len(w.there.writes) > 0 {
		t.Errorf("error %v, writes %v", err, w.there.writes)
	}
}

// silent is an API server that does not answer.
type silent struct{ client.Reader }

func (silent) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

func (silent) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no answer")
}

// TestIngressesNeedTheirWatch has a target whose watches do not work.
func TestIngressesNeedTheirWatch(t *testing.T) {
	w := newWorld(t, []client.Object{pathTo("web", withAnnotation(v1alpha1.AnnotationGlobal, "true"))}, nil)
	w.c2.existing = map[string]*existing{}
	w.c2.objects = func() (*engage.Objects, error) { return nil, errors.New("no client") }
	if err := w.c2.reconcileIngress(t.Context(), shop("entry")); err == nil || len(w.there.writes) > 0 {
		t.Errorf("error %v, writes %v", err, w.there.writes)
	}
	w.originals = originalsOf(t, web(everywhere()))
	if _, err := w.c2.reconcileService(t.Context(), shop("web")); err == nil || len(w.there.writes) > 0 {
		t.Errorf("a Service: error %v, writes %v", err, w.there.writes)
	}
}

// TestWithoutSecretsNothingIsKept has a Follower that copies no Secrets.
func TestWithoutSecretsNothingIsKept(t *testing.T) {
	w := newWorld(t, nil, nil)
	if err := w.c2.keepCertificates(t.Context(), shop("entry"), []string{"tls"}); err != nil || len(w.c2.secured) > 0 {
		t.Errorf("error %v, secured %v", err, w.c2.secured)
	}
}
