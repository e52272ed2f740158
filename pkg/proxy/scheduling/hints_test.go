package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// eventsFor returns which of the plugin's hints an event of a resource asks.
func (w *world) eventsFor(t *testing.T, resource fwk.EventResource, action fwk.ActionType) []fwk.QueueingHintFn {
	t.Helper()
	all, err := w.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var hints []fwk.QueueingHintFn
	for _, e := range all {
		if e.Event.Resource == resource && e.Event.ActionType&action != 0 {
			hints = append(hints, e.QueueingHintFn)
		}
	}
	return hints
}

func TestWhichEventsWakeAPod(t *testing.T) {
	for name, test := range map[string]struct {
		resource fwk.EventResource
		action   fwk.ActionType
		// object and other are of the event: the pod is woken by the first one alone.
		object, other func(w *world) any
	}{
		"a target has room": {
			targetChange, fwk.Update,
			func(w *world) any { return w.engage(t, "c1", interceptor.Funcs{}) },
			func(w *world) any { return w.empty(t, "c1") },
		},
		"the node of a target is there": {
			fwk.Node, fwk.Add,
			func(w *world) any {
				return newNode(w.engage(t, "c1", interceptor.Funcs{}).NodeName, nil).Node()
			},
			func(*world) any { return newNode("admiralty-c1", nil).Node() },
		},
		"a namespace is enabled": {
			namespaceEnabled, fwk.Update,
			func(*world) any {
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
			},
			func(*world) any { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for want, object := range map[fwk.QueueingHint]func(w *world) any{
				fwk.Queue: test.object, fwk.QueueSkip: test.other,
			} {
				w := newWorld()
				hints := w.eventsFor(t, test.resource, test.action)
				if len(hints) != 1 {
					t.Fatalf("%d hints", len(hints))
				}
				pod := newPod("p", list("cpu", "4"))
				hint, err := hints[0](klog.Background(), pod, nil, object(w))
				if hint != want || err != nil {
					t.Errorf("hint is %v, error %v, want %v", hint, err, want)
				}
			}
		})
	}
}

func TestAPodIsWokenByAnEventThatIsNotUnderstood(t *testing.T) {
	w := newWorld()
	unreadable := newPod("p", nil)
	unreadable.Annotations[v1alpha1.AnnotationOriginalConstraints] = "?"
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	for name, test := range map[string]struct {
		hint   fwk.QueueingHintFn
		pod    *corev1.Pod
		object any
	}{
		"of a target":                        {w.afterTargetChange, newPod("q", nil), "?"},
		"of a node":                          {w.afterNodeAdd, newPod("q", nil), "?"},
		"of a namespace":                     {w.afterNamespaceEnabled, newPod("q", nil), "?"},
		"of what pods need":                  {w.afterNeedsAppeared, newPod("q", nil), "?"},
		"of a target, for an unreadable pod": {w.afterTargetChange, unreadable, c1},
	} {
		if hint, err := test.hint(klog.Background(), test.pod, nil, test.object); hint != fwk.Queue || err == nil {
			t.Errorf("%s: hint is %v, error %v", name, hint, err)
		}
	}
}

func TestAPodWhoseConstraintsAreUnreadableIsRejected(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	pod.Annotations[v1alpha1.AnnotationOriginalConstraints] = "?"
	if _, status := w.PreFilter(t.Context(), nil, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
		t.Errorf("status is %v", status)
	}
}

// TestOnlyItsHolderWakesAPodThatWaitsThere has a pod whose delegate waits in c1.
func TestOnlyItsHolderWakesAPodThatWaitsThere(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p"))
	for at, want := range map[*target]fwk.QueueingHint{c1: fwk.Queue, c2: fwk.QueueSkip} {
		at.Ledger.Update(summary(resources("0", "64Gi"))) // The holder's room does not matter.
		if at == c2 {
			at.Ledger.Update(summary(resources("8", "64Gi")))
		}
		if hint, err := w.hint(newPod("p", list("cpu", "4")), at); hint != want || err != nil {
			t.Errorf("%s: hint is %v, error %v, want %v", at.NodeName, hint, err, want)
		}
	}
}
