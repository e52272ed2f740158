package placement

import (
	"context"
	"errors"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestWhichRequestsWereNotCarriedOut(t *testing.T) {
	resource := podChaperons
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"the server is busy":        {apierrors.NewTooManyRequests("busy", 1), true},
		"the credentials are old":   {apierrors.NewUnauthorized("expired"), true},
		"a webhook denies it":       {apierrors.NewForbidden(resource, "web", errors.New("no")), true},
		"the namespace is missing":  {apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"), true},
		"a webhook cannot be asked": {apierrors.NewInternalError(errors.New(`failed calling webhook "w": EOF`)), true},
		"etcd is full":              {apierrors.NewInternalError(errors.New("mvcc: database space exceeded")), true},
		"the server fails":          {apierrors.NewInternalError(errors.New("down")), false},
		"it is slow":                {apierrors.NewTimeoutError("slow", 0), false},
		"the connection ends":       {io.ErrUnexpectedEOF, false},
		"one is there":              {apierrors.NewAlreadyExists(resource, "web"), false},
	} {
		if got := wasNotCreated(test.err); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestATargetIsUncertainUntilItsCacheShowsThePodChaperon(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, c1, c2 *Target)
		want    bool
	}{
		"nothing is known":  {func(*world, *Target, *Target) {}, false},
		"it did not answer": {func(w *world, c1, _ *Target) { w.Delegates.doubt("p", c1, false) }, true},
		"it answered":       {func(w *world, c1, _ *Target) { w.Delegates.Seen(c1, newChaperon("c", "p")) }, false},
		"it made one unseen": {
			func(w *world, c1, _ *Target) { w.Delegates.noteUnseen(c1, newChaperon("c", "p")) }, true,
		},
		"its cache shows that one": {func(w *world, c1, _ *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			w.Delegates.noteUnseen(c1, newChaperon("c", "p"))
		}, false},
		"its cache shows that one later": {func(w *world, c1, _ *Target) {
			w.Delegates.noteUnseen(c1, newChaperon("c", "p"))
			w.Delegates.Seen(c1, newChaperon("c", "p"))
		}, false},
		"its cache shows an earlier one": {func(w *world, c1, _ *Target) {
			w.Delegates.Seen(c1, newChaperon("b", "p"))
			w.Delegates.noteUnseen(c1, newChaperon("c", "p"))
		}, true},
		"another one did not answer": {
			func(w *world, _, c2 *Target) { w.Delegates.doubt("p", c2, false) }, false,
		},
		"another one is disengaged": {func(w *world, c1, c2 *Target) {
			w.Delegates.doubt("p", c1, false)
			w.Delegates.ForgetTarget(c2, nil)
		}, true},
		"it is disengaged": {func(w *world, c1, _ *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			w.Delegates.doubt("p", c1, false)
			w.Delegates.ForgetTarget(c1, nil)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			test.happens(w, c1, c2)
			if got := w.Delegates.isUncertain("p", c1); got != test.want {
				t.Errorf("uncertain: %v", got)
			}
		})
	}
}

func TestOfTwoDelegatesTheFirstTargetByNameHoldsThePod(t *testing.T) {
	for range 10 { // Maps have no order.
		w := newWorld()
		for _, name := range []string{"c2", "c1", "c3"} {
			w.Delegates.Seen(w.engage(t, name, interceptor.Funcs{}), newChaperon(types.UID("of-"+name), "p"))
		}
		if holder := w.Delegates.Holder("p"); holder.Name() != "c1" {
			t.Fatalf("held by %s", holder.Name())
		}
	}
}

func TestWhatTheCacheOfATargetShows(t *testing.T) {
	for name, test := range map[string]struct {
		chaperon       *v1alpha1.PodChaperon
		has, scheduled bool
	}{
		"nothing":            {},
		"a waiting delegate": {chaperon: newChaperon("c", "p"), has: true},
		"a scheduled one":    {newChaperon("c", "p", inPhase(corev1.PodRunning)), true, true},
		"one that ends":      {chaperon: newChaperon("c", "p", inPhase(corev1.PodRunning), deleting)},
		"that of another":    {chaperon: newChaperon("c", "q", inPhase(corev1.PodRunning))},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", interceptor.Funcs{})
			if test.chaperon != nil {
				w.Delegates.Seen(at, test.chaperon)
			}
			if got := w.Delegates.Has(at, "p"); got != test.has {
				t.Errorf("it has one: %v", got)
			}
			if got := w.Delegates.ScheduledIn(at, "p"); got != test.scheduled {
				t.Errorf("it is scheduled: %v", got)
			}
		})
	}
}

func TestWhoWaitsForATargetIsNotifiedOfItsChanges(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	w.Delegates.Seen(c1, newChaperon("c", "nobody-waits"))
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	waits, other := w.Delegates.startWaiting(key, "p", c1), w.Delegates.startWaiting(key, "q", c2)
	w.Delegates.NotifyTarget(c1.Target)
	if len(waits.news) != 1 || len(other.news) != 0 {
		t.Errorf("%d news, and %d for another target", len(waits.news), len(other.news))
	}
}

func TestNewsOfAPodThatSomebodyAwaitsIsAttended(t *testing.T) {
	w := newWorld()
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	waits := w.Delegates.startWaiting(types.NamespacedName{Namespace: "default", Name: "web"}, "p", c1)
	if w.Delegates.Seen(c1, newChaperon("c", "p")) {
		t.Error("the news is unattended, and somebody waits")
	}
	w.Delegates.stopWaiting("p", waits)
	if !w.Delegates.Seen(c1, newChaperon("c", "p")) {
		t.Error("the news is attended, and nobody waits")
	}
	w.Delegates.Concluded("p", ProxyBound)
	if w.Delegates.Seen(c1, newChaperon("c", "p")) {
		t.Error("the news is unattended, and the pod is bound")
	}
}

func TestPreemptionIsReported(t *testing.T) {
	nominated := func(c *v1alpha1.PodChaperon) { c.Status.NominatedNodeName = "n1" }
	for name, change := range map[string]func(*v1alpha1.PodChaperon){
		"nobody is evicted": func(*v1alpha1.PodChaperon) {}, "somebody is": nominated,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", server{}.funcs())
			type result struct {
				preempts bool
				err      error
			}
			results := make(chan result, 1)
			looks := make(chan string, 10)
			pod := newPod("p", nil)
			go func() {
				waiting := func(_ Wait, reason string) { looks <- reason }
				preempts, err := w.Place(t.Context(), pod, at, Expectation{Waiting: waiting})
				results <- result{preempts, err}
			}()
			receive(t, "the first look", looks)
			full := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")
			chaperon := stored(t, at)
			change(chaperon)
			full(chaperon)
			w.Delegates.Seen(at, chaperon)
			receive(t, "the second look", looks)
			running := chaperon.DeepCopy()
			running.Status = v1alpha1.PodChaperon{}.Status
			inPhase(corev1.PodRunning)(running)
			w.Delegates.Seen(at, running)
			if got := receive(t, "the result", results); got.err != nil || got.preempts != (name == "somebody is") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// stored returns the PodChaperon that a target has.
func stored(t *testing.T, at *Target) *v1alpha1.PodChaperon {
	t.Helper()
	list := &v1alpha1.PodChaperonList{}
	if err := at.Client.List(t.Context(), list, client.InNamespace("default")); err != nil || len(list.Items) != 1 {
		t.Fatalf("%d PodChaperons, error %v", len(list.Items), err)
	}
	return &list.Items[0]
}

func TestNobodyKnowsWhetherAProxyWithoutPodChaperonIsFenced(t *testing.T) {
	pod := newPod("p", nil)
	pod.Annotations[v1alpha1.AnnotationFenceAfter] = "60"
	for name, known := range map[string]bool{"nothing is known of it": false, "another target has one": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", interceptor.Funcs{})
			at.Confirms = func(context.Context) error { return nil }
			at.SetFences(true)
			if known {
				w.Delegates.Seen(w.engage(t, "c2", interceptor.Funcs{}), newChaperon("c", "p"))
			}
			if fence, problem, err := w.Delegates.Fenced(at, pod); !errors.Is(err, errNotShown) {
				t.Errorf("fenced after %s, problem %q, error %v", fence, problem, err)
			}
		})
	}
}

func TestANameIsKeptWhateverALaterEventLacks(t *testing.T) {
	w := newWorld()
	at, key := w.engage(t, "c1", interceptor.Funcs{}), types.NamespacedName{Namespace: "default", Name: "web"}
	w.Delegates.Seen(at, newChaperon("c", "earlier", ofWeb))
	w.Delegates.Seen(at, newChaperon("c", "earlier")) // without the proxy's name
	if w.Delegates.Predecessor(key, "p") != at {
		t.Error("the earlier pod of the name is forgotten")
	}
	if w.Delegates.Predecessor(key, "earlier") != nil {
		t.Error("a pod waits for itself")
	}
}
