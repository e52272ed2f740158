package services

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const createWeb = "create Service web"

// labelled returns a pod of the namespace shop.
func labelled(app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "pod", Labels: map[string]string{"app": app},
	}}
}

// working returns a world with the Service web, in which the workers of c2 work.
func working(t *testing.T, answers ...error) *world {
	t.Helper()
	w := newWorld(t, []client.Object{web()}, nil)
	w.c2.prepared.Store(true)
	w.there.answers[createWeb] = answers
	if err := w.c2.workers.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (s *server) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func TestAServiceIsThereBeforeItsPod(t *testing.T) {
	w := working(t)
	w.Ensure(t.Context(), labelled("web"), w.c2.target)
	if diff := cmp.Diff([]string{createWeb}, w.there.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if wait := w.clock.Now().Sub(w.c2.idle[shop("web")]); wait != 0 {
		t.Errorf("without its pod, the copy goes %s early", wait)
	}
}

func TestAPodWaitsUntilAFailedCopyIsTriedAgain(t *testing.T) {
	w := working(t, apierrors.NewServiceUnavailable("busy"), nil)
	w.Ensure(t.Context(), labelled("web"), w.c2.target)
	if diff := cmp.Diff([]string{createWeb, createWeb}, w.there.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAPodDoesNotWaitForARefusedService(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for name, answer := range map[string]error{
		"because of a quota": apierrors.NewForbidden(services, "web", errors.New("exceeded quota: q")),
		"for want of rights": apierrors.NewForbidden(services, "web", errors.New(
			`User "c1" cannot create resource "services" in API group "" in the namespace "shop"`)),
	} {
		t.Run(name, func(t *testing.T) {
			w := working(t, answer)
			w.there.answers["patch Service web"] = []error{apierrors.NewNotFound(services, "web")} // There is no copy.
			begun := time.Now()
			w.Ensure(t.Context(), labelled("web"), w.c2.target)
			if took := time.Since(begun); took >= timeouts.EnsureServices {
				t.Errorf("the first pod waited %s", took)
			}
			if keys := w.c2.lacking(labelled("web")); len(keys) > 0 {
				t.Errorf("the next pod waits for %v", keys)
			}
		})
	}
}

func TestAPodGoesWithoutAServiceWhenTimeIsUp(t *testing.T) {
	w := newWorld(t, []client.Object{web()}, nil)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w.Ensure(t.Context(), labelled("web"), w.c2.target) // Nobody works.
		if took := time.Since(begun); took != timeouts.EnsureServices {
			t.Errorf("it waited %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w.Ensure(ctx, labelled("web"), w.c2.target)
		if took := time.Since(begun); took != timeouts.EnsureServices {
			t.Errorf("it did not end with its context: %s", took)
		}
	})
}

func TestOnlyTheFirstPodsWaitForATargetThatDoesNotAnswer(t *testing.T) {
	w := newWorld(t, []client.Object{web()}, nil)
	w.c2.await(shop("web"))
	for waited, want := range map[time.Duration]int{timeouts.EnsureServices - 1: 1, timeouts.EnsureServices: 0} {
		w.clock.SetTime(w.c2.expected[shop("web")].since.Add(waited))
		if keys := w.c2.lacking(labelled("web")); len(keys) != want {
			t.Errorf("after %s, the next pod waits for %v", waited, keys)
		}
	}
	w.c2.answerTo(shop("web"))()
	if keys := w.c2.lacking(labelled("web")); len(keys) != 1 {
		t.Errorf("after an answer, the next pod waits for %v", keys)
	}
}

func TestPodsThatExpectNoServicesDoNotWait(t *testing.T) {
	w := newWorld(t, []client.Object{web()}, nil)
	itself, _ := w.engage(t, &engage.Target{Key: types.NamespacedName{Name: "itself"}, Itself: true})
	unlinked := labelled("web")
	unlinked.Spec.EnableServiceLinks = new(false)
	w.Ensure(t.Context(), unlinked, w.c2.target)
	w.Ensure(t.Context(), labelled("web"), itself.target)
	w.Ensure(t.Context(), labelled("web"), &engage.Target{})
	if len(w.c2.expected)+len(itself.expected) > 0 {
		t.Errorf("they wait for %v and %v", w.c2.expected, itself.expected)
	}
}

func TestAWorkerThatBeganBeforeDoesNotAnswer(t *testing.T) {
	w := newWorld(t, []client.Object{web()}, nil)
	before := w.c2.answerTo(shop("web"))
	answer := w.c2.await(shop("web"))
	before()
	select {
	case <-answer:
		t.Error("the Service may not have been copied")
	default:
	}
	w.c2.answerTo(shop("web"))()
	<-answer
}

func TestForWhichServicesAPodWaits(t *testing.T) {
	elsewhere := []client.Object{web(), endpointsOf("web-1", "admiralty-c3"), virtualNode("admiralty-c3")}
	plain := []client.Object{web(), endpointsOf("web-1", "node")}
	headless := web(func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	rewritten := web(
		selecting(map[string]string{"multicluster.admiralty.io/app": "web"}),
		annotated(v1alpha1.AnnotationOriginalSelector, "app=web"),
	)
	key := shop("web")
	for name, test := range map[string]struct {
		from []client.Object
		app  string // of the pod
		// more says that the target has pods of the namespace.
		more   bool
		change func(c *copier)
		want   bool
	}{
		"its own":                        {from: []client.Object{web()}, app: "web", want: true},
		"its own, in a known namespace":  {from: []client.Object{web()}, app: "web", more: true, want: true},
		"its own, rewritten":             {from: []client.Object{rewritten}, app: "web", more: true, want: true},
		"its own, without an address":    {from: []client.Object{headless}, app: "web"},
		"its own, in another namespace":  {app: "web"},
		"that of pods in other clusters": {from: elsewhere, want: true},
		"that of pods in other clusters, which has gone along": {
			from: elsewhere, more: true,
		},
		"that of plain pods":     {from: plain},
		"a global one":           {from: []client.Object{web(everywhere())}, want: true},
		"one that is not copied": {from: []client.Object{web(external)}, app: "web"},
		"one that was copied": {
			from: []client.Object{web()}, app: "web", more: true, change: func(c *copier) { c.noteEnsured(key, true) },
		},
		"one that was copied for pods that are gone": {
			from: []client.Object{web()}, app: "web", change: func(c *copier) { c.noteEnsured(key, true) }, want: true,
		},
		"one whose copy is gone": {
			from: []client.Object{web()}, app: "web", more: true, want: true,
			change: func(c *copier) {
				c.noteEnsured(key, true)
				c.noteEnsured(key, false)
			},
		},
		"one that was refused": {
			from: []client.Object{web()}, app: "web",
			change: func(c *copier) { c.note(item{kindService, key}, nil, "no room") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.from, nil)
			if test.more {
				other := metav1.ObjectMeta{Namespace: "shop", Name: "other"}
				w.c2.chaperonSeen(&v1alpha1.PodChaperon{ObjectMeta: other})
			}
			if test.change != nil {
				test.change(w.c2)
			}
			if got := len(w.c2.lacking(labelled(test.app))) > 0; got != test.want {
				t.Errorf("it waits: %t, want %t", got, test.want)
			}
		})
	}
}

// TestACopyForAPodThatDoesNotComeGoes has a pod that the target refused afterwards.
func TestACopyForAPodThatDoesNotComeGoes(t *testing.T) {
	service := web()
	w := newWorld(t, []client.Object{service}, nil)
	w.c2.prepared.Store(true)
	w.c2.await(shop("web"))
	reconcile := func(want time.Duration) {
		t.Helper()
		result, err := w.c2.Reconcile(t.Context(), item{kindService, shop("web")})
		if err != nil || result.RequeueAfter != want {
			t.Errorf("again after %s, error %v", result.RequeueAfter, err)
		}
	}
	reconcile(grace)
	w.c2.existing[""] = copiesOf(t, copyOf(t, service))
	reconcile(grace)
	w.clock.SetTime(w.clock.Now().Add(grace))
	reconcile(0)
	if diff := cmp.Diff([]string{createWeb, "delete Service web"}, w.there.written()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
