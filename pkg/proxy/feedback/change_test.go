package feedback

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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// labelled is a proxy that got a label after its PodChaperon was made.
func labelled(pod *corev1.Pod) { pod.Labels = map[string]string{"tier": "api"} }

func TestAChangedProxyChangesItsPodChaperon(t *testing.T) {
	s := newScene(t, proxy(labelled), ours())
	for range 2 { // The second time, it has the change.
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	s.expectRequests(`/tier":"api"`)
	c := ours()
	if err := s.target.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	if now := translate.RevisionOf(c); now.Number != 1 || now.Fingerprint != translate.Fingerprint(proxy(labelled)) {
		t.Errorf("revision %v", now)
	}
}

func TestWhatDoesNotChangeAPodChaperon(t *testing.T) {
	uid := func(o client.Object) { o.SetUID("other") }
	onChaperon := func(change func(*v1alpha1.PodChaperon)) func(client.Object) {
		return func(o client.Object) {
			if c, ok := o.(*v1alpha1.PodChaperon); ok {
				change(c)
			}
		}
	}
	onProxy := func(change func(*corev1.Pod)) func(client.Object) {
		return func(o client.Object) {
			if pod, ok := o.(*corev1.Pod); ok {
				change(pod)
			}
		}
	}
	for name, test := range map[string]struct {
		chaperon []func(*v1alpha1.PodChaperon) // as the cache shows it
		live     func(client.Object)           // what the API servers show instead
		fail     string
		err      error
		failed   bool
		events   []string
	}{
		"its end was requested": {chaperon: []func(*v1alpha1.PodChaperon){toEnd("")}},
		"it is the next proxy":  {live: onProxy(func(p *corev1.Pod) { uid(p) })},
		"the proxy is elsewhere now": {
			live: onProxy(func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c3" }),
		},
		"the proxy is as it was when the PodChaperon was made": {live: onProxy(func(p *corev1.Pod) { p.Labels = nil })},
		"it is the next PodChaperon": {
			live: onChaperon(func(c *v1alpha1.PodChaperon) { uid(c) }),
		},
		"it is being deleted by now": {live: onChaperon(deleted)},
		"it cannot be read": {
			live: onChaperon(func(c *v1alpha1.PodChaperon) { c.Unreadable = "no" }),
		},
		"the proxy is gone": {
			fail: "live proxy", err: apierrors.NewNotFound(schema.GroupResource{}, "web"),
		},
		"the source is down": {fail: "live proxy", err: errDown, failed: true},
		"the PodChaperon is gone": {
			fail: "live chaperon", err: apierrors.NewNotFound(schema.GroupResource{}, "web"),
		},
		"the target is down": {fail: "live chaperon", err: errDown, failed: true},
		"it is gone when it is written": {
			fail: "patch chaperon", err: apierrors.NewNotFound(schema.GroupResource{}, "web"),
		},
		"it is changed by others": {
			fail: "patch chaperon", err: apierrors.NewConflict(schema.GroupResource{}, "web", errDown), failed: true,
		},
		"the target refuses the change": {
			fail: "patch chaperon", failed: true,
			err:    apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("quota")),
			events: []string{ReasonChangeNotApplied},
		},
		"the change makes no delegate": {
			live: onProxy(func(p *corev1.Pod) {
				p.Annotations[v1alpha1.AnnotationOriginalConstraints] = "{"
			}),
			events: []string{ReasonChangeNotApplied},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, proxy(labelled), ours(test.chaperon...))
			s.liveSeen = test.live
			if test.fail != "" {
				s.fail[test.fail] = test.err
			}
			if _, err := s.reconcile(); (err != nil) != test.failed {
				t.Errorf("error %v", err)
			}
			s.expectRequests()
			s.expectEvents(test.events...)
		})
	}
}

func TestWhichChangesAProxyShows(t *testing.T) {
	said := func(status corev1.ConditionStatus, of int64) *corev1.PodCondition {
		return &corev1.PodCondition{
			Type: v1alpha1.ConditionChanges, Status: status, Reason: "Why", Message: "why", ObservedGeneration: of,
			LastTransitionTime: metav1.NewTime(time.Unix(1500, 0)),
		}
	}
	lacks := func(reason, message string, since int64) *corev1.PodCondition {
		return &corev1.PodCondition{
			Type: v1alpha1.ConditionChanges, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(time.Unix(since, 0)),
		}
	}
	unsupported := func(since int64) *corev1.PodCondition {
		return lacks(v1alpha1.ReasonChangesUnsupported, messageUnsupported, since)
	}
	for name, test := range map[string]struct {
		revision   int64
		another    bool // the proxy has changed again
		said       *corev1.PodCondition
		before     *corev1.PodCondition
		supported  bool
		want       *corev1.PodCondition
		generation int64
	}{
		"nothing was changed":         {generation: 7},
		"the change is on its way":    {another: true},
		"the delegate has the change": {revision: 1, said: said(corev1.ConditionTrue, 1), generation: 7},
		"it has an earlier one":       {revision: 2, said: said(corev1.ConditionTrue, 1), supported: true},
		"it has it now": {
			revision: 1, said: said(corev1.ConditionTrue, 1), before: unsupported(1), generation: 7,
		},
		"the proxy has changed since":   {revision: 1, said: said(corev1.ConditionTrue, 1), another: true},
		"the manager says nothing yet":  {revision: 1, supported: true},
		"the manager says nothing ever": {revision: 1, want: unsupported(2000)},
		"it said nothing before":        {revision: 1, before: unsupported(1), want: unsupported(1)},
		"the target refuses it": {
			revision: 1, said: said(corev1.ConditionFalse, 1), want: lacks("Why", "why", 1500),
		},
		"the target still refuses it": {
			revision: 1, said: said(corev1.ConditionFalse, 1), before: lacks("Why", "why", 1200), supported: true,
			want: lacks("Why", "why", 1200),
		},
		"the target refused an earlier one": {revision: 2, said: said(corev1.ConditionFalse, 1), supported: true},
	} {
		t.Run(name, func(t *testing.T) {
			ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
			s := state{nodeName: node, proxy: proxy(), now: time.Unix(2000, 0), vet: anyAddress}
			s.changes = test.supported
			s.proxy.Generation = 7
			if test.another {
				labelled(s.proxy)
			}
			if test.before != nil {
				s.proxy.Status.Conditions = append(s.proxy.Status.Conditions, *test.before)
			}
			c := ours()
			c.Annotations[v1alpha1.AnnotationRevision] = translate.Revision{
				Number: test.revision, Fingerprint: translate.Fingerprint(proxy()),
			}.String()
			c.Status.ObservedGeneration, c.Status.Conditions = 3, []corev1.PodCondition{ready}
			if test.said != nil {
				c.Status.Conditions = append(c.Status.Conditions, *test.said)
			}
			status := decideStatus(t, s, c)
			if got := translate.PodCondition(status.Conditions, v1alpha1.ConditionChanges); !cmp.Equal(got, test.want) {
				t.Errorf("condition (-want +got):\n%s", cmp.Diff(test.want, got))
			}
			if translate.PodCondition(status.Conditions, corev1.PodReady) == nil {
				t.Errorf("conditions %v", status.Conditions)
			}
			if status.ObservedGeneration != test.generation {
				t.Errorf("generation %d, want %d", status.ObservedGeneration, test.generation)
			}
		})
	}
}

// decideStatus returns the status that a proxy gets.
func decideStatus(t *testing.T, s state, c *v1alpha1.PodChaperon) *corev1.PodStatus {
	t.Helper()
	s.chaperons = []v1alpha1.PodChaperon{*c}
	status := decide(s).status
	if status == nil {
		t.Fatal("the proxy stays as it is")
	}
	return status
}

func TestAChangeThatTheDelegateLacksIsReportedOnce(t *testing.T) {
	refused := func(why string) func(*v1alpha1.PodChaperon) {
		return func(c *v1alpha1.PodChaperon) {
			c.Annotations[v1alpha1.AnnotationRevision] = "1-" + translate.Fingerprint(proxy())
			c.Status.Conditions = []corev1.PodCondition{{
				Type: v1alpha1.ConditionChanges, Status: corev1.ConditionFalse, Message: why, ObservedGeneration: 1,
			}}
		}
	}
	why := "quota"
	s := newScene(t, proxy(), ours())
	s.cachedChaperons = func() []v1alpha1.PodChaperon { return []v1alpha1.PodChaperon{*ours(refused(why))} }
	for _, step := range []struct {
		why    string
		events []string
	}{
		{"quota", []string{ReasonChangeNotApplied}}, {"quota", nil}, {"a webhook", []string{ReasonChangeNotApplied}},
	} {
		why = step.why
		s.clock.SetTime(s.clock.Now().Add(time.Second))
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		s.expectEvents(step.events...)
	}
}

func TestFieldsThatTheDelegateLacksAreReportedOnce(t *testing.T) {
	dropped := corev1.PodCondition{
		Type: v1alpha1.ConditionFields, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonFieldsDropped,
	}
	s := newScene(t, proxy(), ours())
	s.cachedChaperons = func() []v1alpha1.PodChaperon {
		return []v1alpha1.PodChaperon{*ours(func(c *v1alpha1.PodChaperon) {
			c.Status.Conditions = []corev1.PodCondition{dropped}
		})}
	}
	for _, step := range []struct {
		message string
		events  []string
	}{{"spec.a", []string{ReasonFieldsDropped}}, {"spec.a", nil}, {"each time another one", nil}} {
		dropped.Message = step.message
		s.clock.SetTime(s.clock.Now().Add(time.Second))
		if _, err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		s.expectEvents(step.events...)
		shown := translate.PodCondition(s.now().Status.Conditions, v1alpha1.ConditionFields)
		if shown == nil || shown.Message != step.message {
			t.Errorf("the proxy shows %v", shown)
		}
	}
}
