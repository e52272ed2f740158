package target

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
)

func TestAnEngagedTargetShowsItsPodChaperons(t *testing.T) {
	for name, key := range map[string]types.NamespacedName{
		"a ClusterTarget": {Name: "c2"}, "a Target": {Namespace: "shop", Name: "c2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t, key, summaryOf("c2"))
			r.options.Client = fakeOf(t, interceptor.Funcs{}, boundTo("shop", "admiralty-c2"))
			if key.Namespace != "" {
				r.options.Client = fakeOf(t, interceptor.Funcs{}, boundTo("shop", "admiralty-ns-shop-c2"))
			}
			r.options.Verifier = func() (gate.Verifier, error) { return noProofs{}, nil }
			r.remakes()
			ours := delegated("shop", "c2")
			ours.Labels[v1alpha1.LabelTargetHash] = r.loop.ours()[v1alpha1.LabelTargetHash]
			other := delegated("other", "c3")
			for _, one := range []client.Object{ours, other} {
				if err := r.server.Create(t.Context(), one); err != nil {
					t.Fatal(err)
				}
			}
			e := r.engages(t)
			if found, ok := r.options.Registry.ByKey(key); !ok || found != e.target {
				t.Fatal("it is not in the Registry")
			}
			list := &v1alpha1.PodChaperonList{}
			err := e.target.Client.List(t.Context(), list, client.MatchingFields{engage.IndexParent: "shop/web"})
			if err != nil || len(list.Items) != 1 {
				t.Errorf("%d PodChaperons, error %v", len(list.Items), err)
			}
			if e.version != "v1.37.0" || e.target.ClusterID != "c2" || e.target.Itself {
				t.Errorf("version %q of cluster %q, itself: %t", e.version, e.target.ClusterID, e.target.Itself)
			}
			if e.target.Config.QPS >= 0 {
				t.Error("requests are limited here, and not by the target's own rules")
			}
			if e.target.Copied != nil || e.hold != nil {
				t.Error("it is read namespace by namespace, or held")
			}
		})
	}
}

func TestWhyATargetCannotBeEngaged(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no"))
	for name, test := range map[string]struct {
		request string
		answer  error
		given   func(r *reaching)
		want    string
	}{
		"it does not know us": {
			request: "get version", answer: apierrors.NewUnauthorized("no"), want: v1alpha1.ReasonUnauthorized,
		},
		"it refuses its ClusterSummary": {
			request: "get clustersummaries", answer: refused, want: v1alpha1.ReasonForbidden,
		},
		"it has no ClusterSummary": {
			given: func(r *reaching) { _ = r.server.Delete(r.life, summaryOf("")) }, want: v1alpha1.ReasonNotInstalled,
		},
		"another cluster answers": {
			given: func(r *reaching) { r.want.pin = "c3" }, want: v1alpha1.ReasonOtherCluster,
		},
		"another cluster answers than before": {
			given: func(r *reaching) { r.loop.known = "c3" }, want: v1alpha1.ReasonOtherCluster,
		},
		"the source has no key": {
			given: func(r *reaching) {
				r.loop.options.Verifier = func() (gate.Verifier, error) { return nil, errAway }
			},
			want: v1alpha1.ReasonNoKey,
		},
		"it does not let us list PodChaperons": {
			request: "list podchaperons", answer: apierrors.NewBadRequest("no"), want: v1alpha1.ReasonUnreachable,
		},
		"it does not let us watch summaries": {
			request: "list clustersummaries", answer: refused, want: v1alpha1.ReasonForbidden,
		},
		"somebody who works with it fails": {
			given: func(r *reaching) { r.loop.options.Registry = engage.NewRegistry(failing{}) },
			want:  v1alpha1.ReasonUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t, keyC2, summaryOf("c2"))
			r.loop.options.Clock = hasty{r.clock}
			if test.given != nil {
				test.given(r)
			}
			r.server.answer(test.request, test.answer)
			e, err := r.loop.engage(t.Context(), r.life, r.want)
			if err == nil || e != nil {
				t.Fatal("it is engaged")
			}
			if got := r.loop.conditionOf(err, r.want); got.Reason != test.want {
				t.Errorf("got %s: %s", got.Reason, got.Message)
			}
			if _, ok := r.loop.options.Registry.ByKey(keyC2); ok {
				t.Error("it is in the Registry")
			}
		})
	}
}

// failing is an observer that cannot work with any target.
type failing struct{ onLoss }

func (failing) Engaged(context.Context, *engage.Target) error { return errAway }

// hasty is a clock whose timers are over at once.
type hasty struct{ *testclock.FakeClock }

func (c hasty) NewTimer(d time.Duration) clock.Timer {
	another := testclock.NewFakeClock(c.Now())
	timer := another.NewTimer(d)
	another.Step(d)
	return timer
}
