package services

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
)

func everywhere() func(*corev1.Service) { return annotated(v1alpha1.AnnotationGlobal, "true") }

// copyOf returns the copy of a Service that c2 has of this source.
func copyOf(t *testing.T, original *corev1.Service) *corev1.Service {
	t.Helper()
	made, err := toC2().service(original, nil)
	if err != nil {
		t.Fatal(err)
	}
	return madeFor(made, "c2")
}

// sliceOf returns the copy of an EndpointSlice of a global Service.
func sliceOf(original *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	for _, slice := range toC2().endpoints(onlyWith(original)) {
		return madeFor(slice, "c2")
	}
	return nil
}

func onlyWith(slice *discoveryv1.EndpointSlice) original {
	return original{service: web(everywhere()), slices: []*discoveryv1.EndpointSlice{slice}}
}

// withoutMark returns a copy that has lost its annotation followed-by.
func withoutMark[T client.Object](copied T) T {
	lost := copied.DeepCopyObject().(T) //nolint:forcetypeassert // A deep copy has the type of its original.
	annotations := maps.Clone(lost.GetAnnotations())
	delete(annotations, v1alpha1.AnnotationFollowedBy)
	lost.SetAnnotations(annotations)
	return lost
}

func external(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }

func invalid() error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", nil)
}

func TestTheCopiesOfAService(t *testing.T) {
	busy := apierrors.NewServiceUnavailable("busy")
	taken := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "services"}, "web")
	global := web(everywhere())
	slice := endpointsOf("web-1", "node")
	copied, endpoints := copyOf(t, global), sliceOf(slice)
	otherFamily := endpoints.DeepCopy()
	otherFamily.AddressType = discoveryv1.AddressTypeIPv6
	otherAddress := endpoints.DeepCopy()
	otherAddress.Endpoints[0].Addresses = []string{"10.0.0.2"}
	unmarked, unmarkedEndpoints, bare := withoutMark(copied), withoutMark(endpoints), copied.DeepCopy()
	bare.Annotations = nil
	denied := apierrors.NewForbidden(
		schema.GroupResource{Resource: "services"}, "web", errors.New("it lacks "+v1alpha1.AnnotationFollowedBy),
	)
	surplus := madeFor(endpointsOf("web-0", "node"), "c2")
	theirs := madeFor(endpointsOf("web-theirs", "node"), "c3")
	orphaned := madeFor(endpointsOf("web-orphaned", "node"), "gone")
	createSlice := "create EndpointSlice " + endpoints.Name
	headless := web(everywhere(), addresses(corev1.ClusterIPNone))
	byUser := func(s *corev1.Service) {
		fields := metav1.NewFieldsV1(`"f:multicluster.admiralty.io/global"`)
		s.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: fields}}
	}
	cilium := annotated("service.cilium.io/global", "true")
	for name, test := range map[string]struct {
		from, copies []client.Object
		answers      map[string][]error
		want         []string
		err          func(error) bool
	}{
		"the Service comes before its endpoints": {
			from: []client.Object{global, slice}, want: []string{"create Service web", createSlice},
		},
		"nothing changes that is as it should be": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, endpoints},
		},
		"changed endpoints are changed": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, otherAddress},
			want: []string{
				"patch EndpointSlice " + endpoints.Name + ": test uid, test parent-cluster-id, add endpoints",
			},
		},
		"endpoints of another family are made anew": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, otherFamily},
			want: []string{"delete EndpointSlice " + endpoints.Name, createSlice},
		},
		"surplus endpoints go last, and those of another target stay": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, surplus, theirs},
			want: []string{createSlice, "delete EndpointSlice web-0"},
		},
		"a changed Service is changed": {
			from:   []client.Object{web(everywhere(), selecting(map[string]string{"app": "new"}))},
			copies: []client.Object{copied},
			want:   []string{"patch Service web: test uid, test parent-cluster-id, add spec"},
		},
		"a Service that has lost its mark gets it back, and keeps its endpoints": {
			from: []client.Object{global, slice}, copies: []client.Object{unmarked, endpoints},
			want: []string{"patch Service web: test uid, test parent-cluster-id, add followed-by"},
		},
		"endpoints that have lost their mark get it back": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, unmarkedEndpoints},
			want: []string{
				"patch EndpointSlice " + endpoints.Name + ": test uid, test parent-cluster-id, add followed-by",
			},
		},
		"a Service that has lost all annotations gets them back": {
			from: []client.Object{global, slice}, copies: []client.Object{bare, endpoints},
			want: []string{
				"patch Service web: test uid, test parent-cluster-id, test resourceVersion, add annotations, " +
					"add global, add is-delegate",
			},
		},
		"a Service that has lost its mark gets no endpoints where the policy takes it for nobody's": {
			from: []client.Object{global, slice}, copies: []client.Object{unmarked, endpoints},
			answers: map[string][]error{"patch Service web": {denied}},
			want: []string{
				"patch Service web: test uid, test parent-cluster-id, add followed-by",
				"delete EndpointSlice " + endpoints.Name,
			},
			err: func(err error) bool {
				return strings.HasPrefix(refusal(err), "there is a Service of that name, which does not come from")
			},
		},
		"a Service without the mark, which the policy takes for nobody's, is not removed": {
			from:    []client.Object{web(everywhere(), external)},
			copies:  []client.Object{unmarked},
			answers: map[string][]error{"delete Service web": {denied}}, want: []string{"delete Service web"},
			err: func(err error) bool { return errors.As(err, new(*writer.NotOursError)) },
		},
		"a Service that becomes headless is made anew": {
			from: []client.Object{headless}, copies: []client.Object{copied},
			want: []string{"delete Service web", "create Service web"},
		},
		"a Service that cannot be deleted is not made anew": {
			from: []client.Object{headless}, copies: []client.Object{copied},
			answers: map[string][]error{"delete Service web": {busy}}, want: []string{"delete Service web"},
			err: apierrors.IsServiceUnavailable,
		},
		"a target with other families chooses them": {
			from:    []client.Object{global, slice},
			answers: map[string][]error{"create Service web": {invalid(), nil}},
			want:    []string{"create Service web", "create Service web", createSlice},
		},
		"endpoints wait for the Service": {
			from: []client.Object{global, slice}, answers: map[string][]error{"create Service web": {busy}},
			want: []string{"create Service web"}, err: apierrors.IsServiceUnavailable,
		},
		"a Service of others gets no endpoints of ours": {
			from: []client.Object{global, slice}, copies: []client.Object{endpoints},
			answers: map[string][]error{"create Service web": {taken}, "patch Service web": {invalid()}},
			want: []string{
				"create Service web",
				"patch Service web: test parent-cluster-id, add " +
					"followed-by, add global, add " +
					"is-delegate, add spec",
				"patch Service web: test parent-cluster-id",
				"delete EndpointSlice " + endpoints.Name,
			},
			err: func(err error) bool { return errors.As(err, new(*writer.NotOursError)) },
		},
		"Cilium merges the endpoints": {
			from: []client.Object{web(everywhere(), cilium), slice}, want: []string{"create Service web"},
		},
		"a selector that is none is the user's error": {
			from: []client.Object{
				web(everywhere(), annotated(v1alpha1.AnnotationOriginalSelector, "{"), byUser), slice,
			},
			err: func(err error) bool { return errors.Is(err, errUser) },
		},
		"a Service that is not global goes nowhere": {from: []client.Object{web(), slice}},
		"an exported Service is removed after its endpoints": {
			from:   []client.Object{global, slice, &metav1.PartialObjectMetadata{ObjectMeta: global.ObjectMeta}},
			copies: []client.Object{copied, endpoints},
			want:   []string{"delete EndpointSlice " + endpoints.Name, "delete Service web"},
		},
		"a Service that is gone is removed with orphaned endpoints": {
			copies: []client.Object{copied, theirs, orphaned},
			want:   []string{"delete EndpointSlice web-orphaned", "delete Service web"},
		},
		"endpoints without a Service are removed": {
			copies: []client.Object{endpoints}, want: []string{"delete EndpointSlice " + endpoints.Name},
		},
		"the Service stays while its endpoints cannot be removed": {
			copies:  []client.Object{copied, endpoints},
			answers: map[string][]error{"delete EndpointSlice " + endpoints.Name: {busy}},
			want:    []string{"delete EndpointSlice " + endpoints.Name}, err: apierrors.IsServiceUnavailable,
		},
		"a copy that vanishes while it is changed is no error": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, otherAddress},
			answers: map[string][]error{"patch EndpointSlice " + endpoints.Name: {
				apierrors.NewNotFound(schema.GroupResource{}, ""),
			}},
			want: []string{
				"patch EndpointSlice " + endpoints.Name + ": test uid, test parent-cluster-id, add endpoints",
			},
		},
		"a copy that cannot be changed is an error": {
			from: []client.Object{global, slice}, copies: []client.Object{copied, otherAddress},
			answers: map[string][]error{"patch EndpointSlice " + endpoints.Name: {busy}},
			want: []string{
				"patch EndpointSlice " + endpoints.Name + ": test uid, test parent-cluster-id, add endpoints",
			},
			err: apierrors.IsServiceUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.from, test.copies)
			w.engage(t, &engage.Target{Key: types.NamespacedName{Name: "c3"}})
			w.there.answers = test.answers
			wait, err := w.c2.reconcileService(t.Context(), shop("web"))
			if (err != nil) != (test.err != nil) || err != nil && !test.err(err) || wait != 0 {
				t.Errorf("wait %s, error %v", wait, err)
			}
			if diff := cmp.Diff(test.want, w.there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestACopyGoesWithItsDelegates has a Service that selects proxies.
func TestACopyGoesWithItsDelegates(t *testing.T) {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
	from := []client.Object{web(), endpointsOf("web-1", "admiralty-c2"), virtualNode("admiralty-c2")}
	w := newWorld(t, from, nil)
	reconcile := func(want ...string) time.Duration {
		t.Helper()
		w.there.writes = nil
		wait, err := w.c2.reconcileService(t.Context(), shop("web"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.there.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		return wait
	}
	reconcile()
	w.c2.chaperonSeen(chaperon)
	first := []item{{kindService, shop("web")}}
	if diff := cmp.Diff(first, queued(w.c2.workers), cmp.AllowUnexported(item{})); diff != "" {
		t.Errorf("items of the first delegate (-want +got):\n%s", diff)
	}
	reconcile("create Service web")

	w.c2.existing[""] = copiesOf(t, copyOf(t, web()))
	w.c2.chaperonGone(chaperon)
	if len(queued(w.c2.workers)) == 0 {
		t.Error("nobody looks at the Service after the last delegate")
	}
	if wait := reconcile(); wait != grace {
		t.Errorf("it looks again after %s, want %s", wait, grace)
	}
	w.clock.SetTime(w.clock.Now().Add(grace))
	reconcile("delete Service web")
	w.c2.existing[""] = copiesOf(t)
	reconcile()
	if len(w.c2.idle) > 0 {
		t.Errorf("a Service without a copy is idle: %v", w.c2.idle)
	}
}

func TestACopyOfAnotherTargetGetsNoGrace(t *testing.T) {
	w := newWorld(t, []client.Object{web()}, []client.Object{madeFor(copyOf(t, web()), "c3")})
	wait, err := w.c2.reconcileService(t.Context(), shop("web"))
	if err != nil || wait != 0 || len(w.there.writes) > 0 {
		t.Errorf("wait %s, error %v, writes %v", wait, err, w.there.writes)
	}
}

func TestWhoLearnsThatATargetHasAService(t *testing.T) {
	busy := apierrors.NewServiceUnavailable("busy")
	global := web(everywhere())
	changed := web(everywhere(), selecting(map[string]string{"app": "new"}))
	for name, test := range map[string]struct {
		from, there *corev1.Service
		before      bool
		answer      error
		want        bool
	}{
		"a copy that is as it should be counts": {
			from: global, there: copyOf(t, global), want: true,
		},
		"a copy that was made a moment ago counts once it is seen": {from: global},
		"a copy that cannot be changed counts as before": {
			from: changed, there: copyOf(t, global), before: true, answer: busy, want: true,
		},
		"a copy that could not be changed yet counts as before": {
			from: changed, there: copyOf(t, global), answer: busy,
		},
		"a copy that is gone does not count": {from: global, before: true},
		"a copy to be removed does not count": {
			from:  web(external),
			there: copyOf(t, global), before: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var copies []client.Object
			if test.there != nil {
				copies = append(copies, test.there)
			}
			w := newWorld(t, []client.Object{test.from, pathTo("web")}, copies)
			w.there.answers = map[string][]error{"patch Service web": {test.answer}}
			if test.before {
				w.c2.copied[shop("web")] = true
			}
			if _, err := w.c2.reconcileService(t.Context(), shop("web")); (err != nil) != (test.answer != nil) {
				t.Fatal(err)
			}
			if got := w.c2.copied[shop("web")]; got != test.want {
				t.Errorf("copied: %t, want %t", got, test.want)
			}
			selectors, ingresses := queued(w.selectors), queued(w.c2.workers)
			news := test.before != test.want
			if (len(selectors) == 1) != news || (len(ingresses) == 1) != news {
				t.Errorf("queued: %v and %v, want one each: %t", selectors, ingresses, news)
			}
			if news && (ingresses[0] != item{kindIngress, shop("entry")}) {
				t.Errorf("queued: %v, want the Ingress", ingresses[0])
			}
		})
	}
}

// TestNothingIsDecidedBeforeItIsKnown has caches that are not filled.
func TestNothingIsDecidedBeforeItIsKnown(t *testing.T) {
	w := newWorld(t, nil, []client.Object{copyOf(t, web()), ingressCopy("web")})
	w.originals.listed = false
	if _, err := w.c2.reconcileService(t.Context(), shop("web")); err != nil || len(w.there.writes) > 0 {
		t.Errorf("a Service: error %v, writes %v", err, w.there.writes)
	}
	if err := w.c2.reconcileIngress(t.Context(), shop("entry")); err != nil || len(w.there.writes) > 0 {
		t.Errorf("an Ingress: error %v, writes %v", err, w.there.writes)
	}
	if w.originals.objectOf(item{kindService, shop("web")}) != nil {
		t.Error("a Service is known")
	}
}

func TestATargetServesWithACopyOrWithoutDelegates(t *testing.T) {
	key := types.NamespacedName{Name: "c2"}
	for name, test := range map[string]struct {
		target        *engage.Target
		copied, holds bool
		want          bool
	}{
		"the source itself serves": {
			target: &engage.Target{Key: key, Itself: true}, holds: true, want: true,
		},
		"a target without delegates serves": {target: &engage.Target{Key: key}, want: true},
		"a target with delegates and a copy serves": {
			target: &engage.Target{Key: key}, holds: true, copied: true, want: true,
		},
		"a target with delegates does not": {target: &engage.Target{Key: key}, holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			c, _ := w.engage(t, test.target)
			if test.holds {
				c.chaperonSeen(&v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
			}
			if test.copied {
				c.copied[shop("web")] = true
			}
			if got := c.serves(shop("web")); got != test.want {
				t.Errorf("serves: %t, want %t", got, test.want)
			}
		})
	}
}
