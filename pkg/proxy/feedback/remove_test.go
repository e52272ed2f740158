package feedback

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// TestAProxyThatHasChangedIsNotDeletedBecauseItsPodChaperonIsGone has a cache that lags: the proxy may have finished.
func TestAProxyThatHasChangedIsNotDeletedBecauseItsPodChaperonIsGone(t *testing.T) {
	lost := removal{grace: ptr.To[int64](0), message: "the PodChaperon was deleted in the target cluster"}
	failed := lost
	failed.status = &corev1.PodStatus{Phase: corev1.PodFailed}
	for name, test := range map[string]struct {
		removal removal
		changed bool // since the cache saw the proxy
		stays   bool
	}{
		"the proxy is as it was":                            {removal: lost},
		"the proxy has changed":                             {removal: lost, changed: true, stays: true},
		"the proxy fails before it goes":                    {removal: failed},
		"the proxy would fail before it goes, and finished": {removal: failed, changed: true, stays: true},
		"somebody deleted the proxy in the source":          {removal: removal{grace: lost.grace}, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			c := fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).WithObjects(proxy()).Build()
			cached, now := &corev1.Pod{}, &corev1.Pod{}
			key := client.ObjectKeyFromObject(proxy())
			if err := c.Get(t.Context(), key, cached); err != nil {
				t.Fatal(err)
			}
			if test.changed {
				cached.DeepCopyInto(now)
				now.Status.Phase = corev1.PodSucceeded
				if err := c.Status().Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			f := New(Options{Client: c, Recorder: recorder})
			if err := f.remove(t.Context(), cached, &test.removal); err != nil {
				t.Fatal(err)
			}
			err := c.Get(t.Context(), key, now)
			if stays := !apierrors.IsNotFound(err); stays != test.stays {
				t.Errorf("the proxy stays: %t, want %t", stays, test.stays)
			}
			if test.stays && (now.Status.Phase != corev1.PodSucceeded || len(recorder.Events) > 0) {
				t.Errorf("the proxy that stays is %s, and has %d events", now.Status.Phase, len(recorder.Events))
			}
		})
	}
}

// TestAProxyStaysIfItsPodChaperonWasReplaced has a cache that still shows a PodChaperon that was withdrawn.
func TestAProxyStaysIfItsPodChaperonWasReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		cached types.UID
		stays  bool
	}{
		"the cached one is there": {cached: "c1"},
		"it was replaced":         {cached: "c0", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
				t.Fatal(err)
			}
			now := chaperon()
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(proxy(), &now).Build()
			cached := &corev1.Pod{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(proxy()), cached); err != nil {
				t.Fatal(err)
			}
			options := Options{Client: c, Recorder: events.NewFakeRecorder(1)}
			r := &reconciler{options: options, feedback: New(options), target: &engage.Target{APIReader: c}}
			gone := &removal{of: test.cached, grace: ptr.To[int64](0), message: "the delegate is lost"}
			if _, err := r.removeProxy(t.Context(), cached, gone); err != nil {
				t.Fatal(err)
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(proxy()), cached)
			if stays := !apierrors.IsNotFound(err); stays != test.stays {
				t.Errorf("the proxy stays: %t, want %t", stays, test.stays)
			}
		})
	}
}

// TestAProxyWaitsForItsDelegateInAnotherTarget has a proxy that was placed in two targets, and whose own delegate has
// ended.
func TestAProxyWaitsForItsDelegateInAnotherTarget(t *testing.T) {
	for name, test := range map[string]struct {
		elsewhere v1alpha1.PodChaperon
		unseen    bool          // the other target's cache shows none, and placement knows of it
		away      bool          // the other target is out of reach for a moment
		lost      bool          // the other target
		late      time.Duration // since the other target was engaged, long after the proxy was to end
		stays     bool
		events    []string
	}{
		"it has one": {elsewhere: chaperon(), stays: true},
		"it may have one that the cache does not show":  {unseen: true, stays: true},
		"it may have one, and the other target is lost": {unseen: true, lost: true},
		"it may have one for longer than it may":        {unseen: true, late: managerPatience + 71*time.Second},
		"it has one in a target that is out of reach for a moment": {
			elsewhere: chaperon(), away: true, stays: true,
		},
		"it has one for longer than it may": {
			elsewhere: chaperon(), late: managerPatience + 69*time.Second, stays: true,
			events: []string{ReasonDelegateUnclear},
		},
		"a target shows one without end": {elsewhere: chaperon(), late: managerPatience + 71*time.Second},
		"it has an orphan": {elsewhere: chaperon(func(c *v1alpha1.PodChaperon) {
			c.Annotations[v1alpha1.GroupName+"/orphan"] = ""
		})},
		"it has one in a target that is lost": {elsewhere: chaperon(), lost: true},
		"an earlier proxy of its name has one": {
			elsewhere: chaperon(func(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelParentUID] = "0" }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy())
			s.cachedProxy = func() *corev1.Pod { return proxy(terminating(30)) }
			registry := engage.NewRegistry()
			other := &engage.Target{Key: types.NamespacedName{Name: "c3"}, NodeName: "admiralty-c3"}
			if ends := s.feedback.ends.of(other); !test.unseen {
				ends.note(&test.elsewhere)
			}
			s.placedBeside = func(proxy types.UID, nodeName string) *engage.Target {
				if !test.unseen || proxy != "1" || nodeName != node {
					return nil
				}
				return other
			}
			if test.away {
				registry.Lapse(other)
			}
			if test.lost {
				registry.Lose(other)
			}
			s.clock.SetTime(time.Unix(1005, 0))
			if test.late > 0 {
				s.clock.SetTime(time.Unix(2000, 0).Add(test.late))
			}
			result, err := s.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			err = s.source.Get(t.Context(), client.ObjectKeyFromObject(proxy()), &corev1.Pod{})
			if stays := !apierrors.IsNotFound(err); stays != test.stays || (result.RequeueAfter > 0) != test.stays {
				t.Errorf("the proxy stays: %t, for %s, want %t", stays, result.RequeueAfter, test.stays)
			}
			s.expectEvents(test.events...)
		})
	}
}

// TestAProxySaysThatItsDelegateDoesNotEnd has a PodChaperon that is being deleted, so nobody is asked for anything.
func TestAProxySaysThatItsDelegateDoesNotEnd(t *testing.T) {
	for name, test := range map[string]struct {
		now    int64
		events []string
	}{
		"in time":  {now: 1054},
		"too late": {now: 1055, events: []string{ReasonDelegateUnclear}},
	} {
		t.Run(name, func(t *testing.T) {
			ending := chaperon(deleted)
			s := newScene(t, proxy())
			s.cachedProxy = func() *corev1.Pod { return proxy(terminating(30)) }
			s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{ending} }
			s.clock.SetTime(time.Unix(test.now, 0))
			if result, err := s.reconcile(); err != nil || result.RequeueAfter == 0 {
				t.Errorf("the next look is after %s, error %v", result.RequeueAfter, err)
			}
			s.expectEvents(test.events...)
		})
	}
}

// TestNoEndIsConfirmedByATargetThatMayHaveBeenSetBack has a PodChaperon that is missing, also after its end was asked
// for: the backup may be older than the PodChaperon.
func TestNoEndIsConfirmedByATargetThatMayHaveBeenSetBack(t *testing.T) {
	for name, test := range map[string]struct {
		asked   bool
		confirm error
	}{
		"its end was asked for":                              {asked: true},
		"its end was asked for, and the target was set back": {asked: true, confirm: errDown},
		"it was never seen":                                  {},
		"it was never seen, and the target was set back":     {confirm: errDown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy())
			s.cachedProxy = func() *corev1.Pod { return proxy(terminating(30)) }
			s.clock.SetTime(time.Unix(1005, 0))
			confirms := 0
			s.engaged.Confirms = func(context.Context) error { confirms++; return test.confirm }
			if test.asked {
				s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{chaperon()} }
				if _, err := s.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			s.cachedChaperons = func() []v1alpha1.PodChaperon { return nil }
			if _, err := s.reconcile(); !errors.Is(err, test.confirm) {
				t.Errorf("error %v, want %v", err, test.confirm)
			}
			if stays := s.now() != nil; stays != (test.confirm != nil) || confirms != 1 {
				t.Errorf("the proxy stays: %t; the target was asked %d times", stays, confirms)
			}
		})
	}
}
