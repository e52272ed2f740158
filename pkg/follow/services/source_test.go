package services

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// delegates is the selector of delegates with app=web.
	delegates        = "multicluster.admiralty.io/app=web,multicluster.admiralty.io/parent-cluster-id=c1"
	withoutFinalizer = `patch Service web: {"metadata":{"finalizers":["other/y"],"resourceVersion":"7"}}`
	release          = "patch Service web: test resourceVersion, add managedFields"
)

func cilium() func(*corev1.Service) { return annotated("service.cilium.io/global", "true") }

// rewrittenWeb is a Service whose selector we rewrote.
func rewrittenWeb(options ...func(*corev1.Service)) *corev1.Service {
	return web(append([]func(*corev1.Service){
		cilium(), everywhere(), annotated(v1alpha1.AnnotationOriginalSelector, "app=web"), byUs(),
		selecting(map[string]string{"multicluster.admiralty.io/app": "web", v1alpha1.LabelParentClusterID: "c1"}),
	}, options...)...)
}

// byUs makes a Service one whose selector we own.
func byUs() func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: v1alpha1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply,
			APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:selector":{}}}`),
		}}
	}
}

func proxy() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{schedulerOfMetadata: v1alpha1.SchedulerName},
		},
		Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName},
	}
}

func TestSelectorsOfTheSource(t *testing.T) {
	proxies := []client.Object{endpointsOf("web-1", "admiralty-c2"), virtualNode("admiralty-c2")}
	busy := apierrors.NewServiceUnavailable("busy")
	finalizer := func(s *corev1.Service) {
		s.ResourceVersion, s.Finalizers = "7", []string{"multicluster.admiralty.io/x", "other/y"}
	}
	for name, test := range map[string]struct {
		from    []client.Object
		live    []client.Object
		silent  bool
		there   bool // c2 has delegates, and no copy yet
		answers map[string][]error
		want    []string
		wait    time.Duration
		events  int
		failed  bool
	}{
		"a Service that Cilium does not merge stays": {from: append(proxies, web())},
		"a Service of another name that is wanted everywhere goes nowhere": {
			from: []client.Object{web(external, everywhere())}, events: 1,
		},
		"a Service of another name that nobody wants elsewhere": {from: []client.Object{web(external)}},
		"a Service that selects proxies is to select delegates": {
			from: append(proxies, web(cilium())), want: []string{"apply Service web: " + delegates},
		},
		"it waits for the targets":        {from: append(proxies, web(cilium())), there: true},
		"a Service without proxies stays": {from: []client.Object{web(cilium()), virtualNode("admiralty-c2")}},
		"a Service that is not followed stays": {
			from: append(proxies, web(cilium()), &metav1.PartialObjectMetadata{ObjectMeta: web().ObjectMeta}),
		},
		"a selector that is rewritten stays as long as there are proxies": {
			from: []client.Object{rewrittenWeb()}, live: []client.Object{proxy()},
		},
		"a selector without proxies stays for a while": {from: []client.Object{rewrittenWeb()}, wait: grace},
		"a changed selector is rewritten again": {
			from: []client.Object{rewrittenWeb(selecting(map[string]string{"app": "new"}))},
			live: []client.Object{func() *corev1.Pod { p := proxy(); p.Labels["app"] = "new"; return p }()},
			want: []string{"apply Service web: multicluster.admiralty.io/app=new," +
				"multicluster.admiralty.io/parent-cluster-id=c1"},
		},
		"a source that does not answer decides nothing": {
			from: []client.Object{rewrittenWeb()}, silent: true, failed: true,
		},
		"a Service that Cilium merges no longer gets its selector back": {
			from: []client.Object{rewrittenWeb(func(s *corev1.Service) {
				delete(s.Annotations, "service.cilium.io/global")
			})},
			live: []client.Object{proxy()}, want: []string{"apply Service web: app=web", release},
		},
		"a rewritten Service without a selector gets none back": {
			from: []client.Object{rewrittenWeb(func(s *corev1.Service) {
				delete(s.Annotations, "service.cilium.io/global")
				s.Annotations[v1alpha1.AnnotationOriginalSelector] = ""
				s.Spec.Selector = nil
			})},
			want: []string{"apply Service web: <none>", release},
		},
		"an original selector that is none is reported": {
			from: []client.Object{rewrittenWeb(annotated(v1alpha1.AnnotationOriginalSelector, "{"))}, events: 1,
		},
		"a release that failed is tried again": {
			from: []client.Object{web(byUs())}, live: []client.Object{web(byUs())}, want: []string{release},
		},
		"finalizers of the old system go first": {
			from: append(proxies, web(cilium(), finalizer)),
			want: []string{withoutFinalizer},
		},
		"finalizers that are gone are no error": {
			from: []client.Object{web(finalizer)}, answers: map[string][]error{
				"patch Service web": {apierrors.NewNotFound(schema.GroupResource{}, "web")},
			},
			want: []string{withoutFinalizer},
		},
		"finalizers of a Service that changed are no error": {
			from: []client.Object{web(finalizer)}, answers: map[string][]error{
				"patch Service web": {apierrors.NewConflict(schema.GroupResource{}, "web", nil)},
			},
			want: []string{withoutFinalizer},
		},
		"finalizers that cannot be removed are": {
			from: []client.Object{web(finalizer)}, answers: map[string][]error{"patch Service web": {busy}},
			want: []string{withoutFinalizer}, failed: true,
		},
		"a Service that changed is seen again": {
			from: append(proxies, web(cilium())), answers: map[string][]error{
				"apply Service web": {apierrors.NewConflict(schema.GroupResource{}, "web", nil)},
			},
			want: []string{"apply Service web: " + delegates},
		},
		"a Service that is gone is no error": {
			from: append(proxies, web(cilium())), answers: map[string][]error{
				"apply Service web": {apierrors.NewNotFound(schema.GroupResource{}, "web")},
			},
			want: []string{"apply Service web: " + delegates},
		},
		"a selector that cannot be written is": {
			from: append(proxies, web(cilium())), answers: map[string][]error{"apply Service web": {busy}},
			want: []string{"apply Service web: " + delegates}, failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.from, nil)
			w.restart(test.live...)
			w.source.answers = test.answers
			if test.silent {
				w.options.APIReader = silent{}
			}
			if test.there {
				w.c2.chaperonSeen(&v1alpha1.PodChaperon{ObjectMeta: proxy().ObjectMeta})
			}
			result, err := w.reconcileSource(t.Context(), item{kindService, shop("web")})
			if (err != nil) != test.failed || result.RequeueAfter != test.wait {
				t.Errorf("result %v, error %v", result, err)
			}
			if diff := cmp.Diff(test.want, w.source.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if len(w.events.Events) != test.events {
				t.Errorf("%d events, want %d", len(w.events.Events), test.events)
			}
		})
	}
}

// TestADisputedSelectorIsWrittenSeldom has somebody who undoes each change of the selector.
func TestADisputedSelectorIsWrittenSeldom(t *testing.T) {
	w := newWorld(t, []client.Object{
		web(cilium()), endpointsOf("web-1", "admiralty-c2"), virtualNode("admiralty-c2"),
	}, nil)
	for step, test := range []struct {
		after   time.Duration
		written bool
		wait    time.Duration
		events  int
	}{
		{0, true, 0, 0},
		{disputeWindow, true, 0, 0},
		{disputeWindow - 1, true, 0, 0},
		{time.Second, true, 0, 1},
		{time.Second, false, disputePause - time.Second, 0},
		{disputePause - time.Second, true, 0, 0},
		{disputePause + time.Second, true, 0, 0},
		{disputeWindow, true, 0, 0},
		{time.Second, true, 0, 0},
	} {
		w.clock.SetTime(w.clock.Now().Add(test.after))
		w.source.writes = nil
		result, err := w.reconcileSource(t.Context(), item{kindService, shop("web")})
		if err != nil || result.RequeueAfter != test.wait || (len(w.source.writes) == 1) != test.written {
			t.Errorf("step %d: result %v, error %v, writes %v", step, result, err, w.source.writes)
		}
		got := 0
		for ; len(w.events.Events) > 0; got++ {
			<-w.events.Events
		}
		if got != test.events {
			t.Errorf("step %d: %d events, want %d", step, got, test.events)
		}
	}
	w.originals = originalsOf(t)
	if _, err := w.reconcileSource(t.Context(), item{kindService, shop("web")}); err != nil || len(w.disputes) > 0 {
		t.Errorf("a Service that is gone is disputed: %v, error %v", w.disputes, err)
	}
}

// TestADisputeDoesNotDelayTheEnd has a disputed selector that is to be the user's again.
func TestADisputeDoesNotDelayTheEnd(t *testing.T) {
	w := newWorld(t, []client.Object{rewrittenWeb(func(s *corev1.Service) {
		delete(s.Annotations, "service.cilium.io/global")
	})}, nil)
	w.disputes[shop("web")] = dispute{at: w.clock.Now(), undone: undoneTwice}
	if _, err := w.reconcileSource(t.Context(), item{kindService, shop("web")}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"apply Service web: app=web", release}, w.source.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if len(w.disputes) > 0 {
		t.Errorf("the dispute goes on: %v", w.disputes)
	}
}

func TestASelectorOfADisabledNamespaceIsRestored(t *testing.T) {
	busy := apierrors.NewServiceUnavailable("busy")
	gone := apierrors.NewNotFound(schema.GroupResource{}, "web")
	apply := "apply Service web: app=web"
	for name, test := range map[string]struct {
		live    []client.Object
		answers map[string][]error
		enabled bool
		want    []string
		events  int
		failed  bool
	}{
		"a rewritten Service":        {live: []client.Object{rewrittenWeb()}, want: []string{apply, release}},
		"a namespace that is back":   {live: []client.Object{rewrittenWeb()}, enabled: true},
		"a Service that is gone":     {},
		"a Service that we left":     {live: []client.Object{web()}},
		"a Service that we only own": {live: []client.Object{web(byUs())}, want: []string{release}},
		"a Service of others that has our field owner by update only": {live: []client.Object{
			web(byUs(), func(s *corev1.Service) { s.ManagedFields[0].Operation = metav1.ManagedFieldsOperationUpdate }),
		}},
		"a selector that is none": {
			live: []client.Object{rewrittenWeb(annotated(v1alpha1.AnnotationOriginalSelector, "{"))}, events: 1,
		},
		"a Service that goes meanwhile": {
			live: []client.Object{rewrittenWeb()}, answers: map[string][]error{"apply Service web": {gone}},
			want: []string{apply},
		},
		"a selector that cannot be written": {
			live: []client.Object{rewrittenWeb()}, answers: map[string][]error{"apply Service web": {busy}},
			want: []string{apply}, failed: true,
		},
		"fields that are gone": {
			live: []client.Object{rewrittenWeb()}, answers: map[string][]error{"patch Service web": {gone}},
			want: []string{apply, release},
		},
		"fields that cannot be given up": {
			live: []client.Object{rewrittenWeb()}, answers: map[string][]error{"patch Service web": {busy}},
			want: []string{apply, release}, failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			w.restart(test.live...)
			w.source.answers = test.answers
			w.idle[shop("web")] = w.clock.Now()
			if !test.enabled {
				w.originals.enabled = nil
			}
			_, err := w.reconcileSource(t.Context(), item{kindRestore, shop("web")})
			if (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, w.source.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if len(w.events.Events) != test.events {
				t.Errorf("%d events, want %d", len(w.events.Events), test.events)
			}
		})
	}
}

// TestRestore is about clusters that are no sources any more.
func TestRestore(t *testing.T) {
	apply := "apply Service web: app=web"
	for name, test := range map[string]struct {
		service *corev1.Service
		answers map[string][]error
		want    []string
		failed  bool
	}{
		"a rewritten Service":     {service: rewrittenWeb(), want: []string{apply, release}},
		"another Service":         {service: web()},
		"a Service that we own":   {service: web(byUs()), want: []string{release}},
		"a copy":                  {service: rewrittenWeb(annotated(v1alpha1.AnnotationIsDelegate, ""))},
		"a selector that is none": {service: rewrittenWeb(annotated(v1alpha1.AnnotationOriginalSelector, "{"))},
		"a failure": {
			service: rewrittenWeb(), answers: map[string][]error{"apply Service web": {errors.New("no")}},
			want: []string{apply}, failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(test.service)
			s.answers = test.answers
			if err := Restore(t.Context(), s, test.service); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(test.want, s.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnnotationsOfTheOldSystemGoWithTheFields has a Service whose annotations stay after the selector is applied.
func TestAnnotationsOfTheOldSystemGoWithTheFields(t *testing.T) {
	w := newWorld(t, nil, nil)
	live := rewrittenWeb()
	w.restart(live)
	object, err := w.applySelector(t.Context(), live, &rewriting{})
	if err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(live.Annotations)
	object.SetManagedFields(append(live.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl"}))
	w.source.writes = nil
	if err := w.releaseFields(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	want := []string{release + ", remove original-selector, " +
		"remove global"}
	if diff := cmp.Diff(want, w.source.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestARewrittenServiceIsNotReleased has a Service that was rewritten again since it was seen.
func TestARewrittenServiceIsNotReleased(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.restart(rewrittenWeb())
	if err := w.readAndRelease(t.Context(), shop("web")); err != nil || len(w.source.writes) > 0 {
		t.Errorf("error %v, writes %v", err, w.source.writes)
	}
	w.options.APIReader = silent{}
	if err := w.readAndRelease(t.Context(), shop("web")); err == nil {
		t.Error("a source that does not answer is no error")
	}
}

func TestWhoSelectsProxies(t *testing.T) {
	w := newWorld(t, nil, nil)
	w.restart(proxy())
	for name, test := range map[string]struct {
		selector map[string]string
		want     bool
	}{
		"the labels of a proxy": {map[string]string{"app": "web"}, true},
		"other labels":          {map[string]string{"app": "db"}, false},
		"no labels":             {nil, false},
	} {
		if got, err := w.selectsProxies(t.Context(), "shop", test.selector); err != nil || got != test.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}
