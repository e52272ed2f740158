package target

import (
	"context"
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/chaperons"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// limited returns a target that lets this source read the namespaces shop and more only.
func limited(t *testing.T, pods []client.Object, objects ...client.Object) *reaching {
	t.Helper()
	r := newReaching(t, keyC2, append(objects, summaryOf("c2"), delegated("shop", "c2"))...)
	r.server.answer("list podchaperons",
		apierrors.NewForbidden(schema.GroupResource{Resource: "podchaperons"}, "", errors.New("no")))
	r.server.answer("list podchaperons shop", nil)
	r.server.answer("list podchaperons more", nil)
	r.options.Client = fakeOf(t, interceptor.Funcs{}, pods...)
	r.options.Verifier = func() (gate.Verifier, error) { return noProofs{}, nil }
	r.remakes()
	return r
}

func TestATargetMayShowSomeNamespacesOnly(t *testing.T) {
	grant := grantOf(func(g *v1alpha1.SourceGrant) {
		g.Status.Used, g.Status.Leaving = []string{"shop"}, []string{"refused"}
	})
	r := limited(t, []client.Object{boundTo("shop", "admiralty-c2")}, grant)
	e := r.engages(t)
	list := &v1alpha1.PodChaperonList{}
	if err := e.target.Client.List(t.Context(), list, client.InNamespace("shop")); err != nil || len(list.Items) != 1 {
		t.Errorf("%d PodChaperons, error %v", len(list.Items), err)
	}
	if e.denied() {
		t.Error("a namespace that is refused counts as a target that refuses everything")
	}
	if e.target.Copied == nil || e.target.FindsNothing == nil {
		t.Fatal("nobody knows in which namespaces there may be copies")
	}

	waittest.Eventually(t, "the SourceGrant is watched", func() bool {
		return r.server.count("watched sourcegrants") > 0
	})
	change := func(used ...string) {
		t.Helper()
		if err := r.server.Get(t.Context(), client.ObjectKeyFromObject(grant), grant); err != nil {
			t.Fatal(err)
		}
		grant.Status.Used = used
		if err := r.server.Update(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
	}
	cached, _ := e.target.Cache.(*chaperons.Cache)
	change("shop", "more")
	waittest.Eventually(t, "a namespace that is named later", func() bool { return cached.Watches("more") })
	change("shop")
	waittest.Eventually(t, "a namespace that is not needed is forgotten", func() bool {
		r.clock.Step(forgetInterval)
		return !cached.Watches("more")
	})
	if !cached.Watches("shop") {
		t.Error("a namespace with PodChaperons is forgotten")
	}

	service := delegated("more", "c2")
	service.UID = ""
	_ = e.target.Client.Create(t.Context(), service)
	if got := e.target.MayHaveCopies(); !slices.Contains(got, "more") {
		t.Errorf("there may be copies in %v", got)
	}
}

func TestWithoutASourceGrantTheNamespacesOfProxiesAreRead(t *testing.T) {
	r := limited(t, []client.Object{boundTo("more", "admiralty-c3")})
	e := r.engages(t)
	cached, ok := e.target.Cache.(*chaperons.Cache)
	if !ok || !cached.Watches("more") || cached.Watches("shop") {
		t.Error("other namespaces are watched than those of proxies")
	}
	before := len(e.target.MayHaveCopies())
	_ = e.target.Client.Create(t.Context(), &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	if got := len(e.target.MayHaveCopies()); got != before {
		t.Error("an object without a namespace counts as a copy in one")
	}
}

func TestATargetIsNotEngagedWhileItsNamespacesAreUnknown(t *testing.T) {
	away := apierrors.NewBadRequest("no")
	for name, test := range map[string]struct {
		request string
		fails   bool // the source's own cache
	}{
		"the user is unknown":     {request: "create selfsubjectreviews"},
		"the grant is unknown":    {request: "get sourcegrants"},
		"the proxies are unknown": {fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := limited(t, nil, grantOf())
			r.server.answer(test.request, away)
			if test.fails {
				r.loop.options.Client = fakeOf(t, failingLists())
			}
			r.loop.options.Clock = hasty{r.clock}
			if _, err := r.loop.engage(t.Context(), r.life, r.want); err == nil {
				t.Error("it is engaged")
			}
		})
	}
}

// failingLists has a client list nothing.
func failingLists() interceptor.Funcs {
	return interceptor.Funcs{List: func(
		context.Context, client.WithWatch, client.ObjectList, ...client.ListOption,
	) error {
		return errAway
	}}
}

func TestTheNewestSourceGrantCounts(t *testing.T) {
	if lastOf(nil) != nil {
		t.Error("there is none")
	}
	r := newReaching(t, keyC2, summaryOf("c2"), grantOf())
	d, err := r.loop.dial(t.Context(), r.want, r.options.Tokens.Attach, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	informer, err := r.loop.watchGrant(t.Context(), r.life, d, &engagement{})
	if err != nil {
		t.Fatal(err)
	}
	if got := lastOf(informer); got == nil || got.Name != grantOf().Name {
		t.Errorf("got %v", got)
	}
}
