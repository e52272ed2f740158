package placement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var web = types.NamespacedName{Namespace: "default", Name: "web"}

// ofWeb names the proxy of a PodChaperon.
func ofWeb(chaperon *v1alpha1.PodChaperon) {
	metav1.SetMetaDataAnnotation(&chaperon.ObjectMeta, v1alpha1.AnnotationParentNamespace, web.Namespace)
	metav1.SetMetaDataAnnotation(&chaperon.ObjectMeta, v1alpha1.AnnotationParentName, web.Name)
}

func TestAPodWaitsForTheDelegateOfAnEarlierPodOfItsName(t *testing.T) {
	gone := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, "")
	for name, test := range map[string]struct {
		happens func(w *world, c1 *Target)
		want    string
	}{
		"there was none": {func(*world, *Target) {}, ""},
		"it runs": {
			func(w *world, c1 *Target) { w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb)) }, "c1",
		},
		"it is ending": {
			func(w *world, c1 *Target) { w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb, toEnd)) }, "c1",
		},
		"it has ended": {
			func(w *world, c1 *Target) { w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb, deleting, gone)) }, "",
		},
		"it has finished": {
			func(w *world, c1 *Target) {
				w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb, inPhase(corev1.PodSucceeded)))
			}, "",
		},
		"it is being placed": {func(w *world, c1 *Target) { w.Delegates.startWaiting(web, "old", c1) }, "c1"},
		"it may have been created": {func(w *world, c1 *Target) {
			waits := w.Delegates.startWaiting(web, "old", c1)
			w.Delegates.doubt("old", c1, false)
			w.Delegates.stopWaiting("old", waits)
		}, "c1"},
		"its target is out of reach for a moment": {func(w *world, c1 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb))
			w.registry.Lapse(c1.Target)
		}, "c1"},
		"it is being placed in a target that is out of reach for a moment": {func(w *world, c1 *Target) {
			w.Delegates.startWaiting(web, "old", c1)
			w.registry.Lapse(c1.Target)
		}, "c1"},
		"it may have been created in a target that is out of reach for a moment": {func(w *world, c1 *Target) {
			waits := w.Delegates.startWaiting(web, "old", c1)
			w.Delegates.doubt("old", c1, false)
			w.Delegates.stopWaiting("old", waits)
			w.registry.Lapse(c1.Target)
		}, "c1"},
		"its target is lost": {func(w *world, c1 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb))
			w.registry.Lose(c1.Target)
		}, ""},
		"it was bound, and deleted by force": {func(w *world, c1 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb))
			w.Delegates.Released(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "old"}})
			w.Delegates.Concluded("old", ProxyGone)
		}, ""},
		"it was deleted in the moment when it was bound": {func(w *world, c1 *Target) {
			now := metav1.Now()
			w.Delegates.Seen(c1, newChaperon("c", "old", ofWeb))
			w.Delegates.Released(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: "old", DeletionTimestamp: &now},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now},
				}},
			})
			w.Delegates.Concluded("old", ProxyGone)
		}, "c1"},
		"it is the pod's own": {
			func(w *world, c1 *Target) { w.Delegates.Seen(c1, newChaperon("c", "new", ofWeb)) }, "",
		},
		"its PodChaperon is gone": {func(w *world, c1 *Target) {
			chaperon := newChaperon("c", "old", ofWeb)
			w.Delegates.Seen(c1, chaperon)
			w.Delegates.Gone(c1, chaperon)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			test.happens(w, w.engage(t, "c1", interceptor.Funcs{}))
			got := ""
			if target := w.Delegates.Predecessor(web, "new"); target != nil {
				got = target.Name()
			}
			if got != test.want {
				t.Errorf("it waits for %q, want %q", got, test.want)
			}
			next := w.Delegates.TakeNext(web)
			if waits := next == "new"; waits != (test.want != "") || w.Delegates.TakeNext(web) != "" {
				t.Errorf("the next pod is %q", next)
			}
		})
	}
}

func TestNothingIsKeptOfNames(t *testing.T) {
	w := newWorld()
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	chaperon := newChaperon("c", "old", ofWeb)
	w.Delegates.Seen(c1, chaperon)
	waits := w.Delegates.startWaiting(web, "new", c1)
	if !w.Delegates.Follows(c1, web, "new") || w.Delegates.Follows(c1, web, "old") {
		t.Error("the earlier proxy is not known")
	}
	w.Delegates.Gone(c1, chaperon)
	w.Delegates.stopWaiting("new", waits)
	if len(w.Delegates.byName) != 0 || len(w.Delegates.byProxy) != 0 {
		t.Errorf("names %v, proxies %v", w.Delegates.byName, w.Delegates.byProxy)
	}
}
