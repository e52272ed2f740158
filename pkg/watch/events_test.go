package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

func pod(name string) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func TestHandlersReceiveObjectsOfTheirType(t *testing.T) {
	var log []string
	handler := On(
		func(pod *corev1.Pod) { log = append(log, "seen "+pod.Name) },
		func(pod *corev1.Pod) { log = append(log, "gone "+pod.Name) },
	)
	handler.OnAdd(pod("added"), false)
	handler.OnAdd(&corev1.Node{}, false)
	handler.OnUpdate(pod("before"), pod("after"))
	handler.OnDelete(pod("deleted"))
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: pod("missed")})
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{})
	want := []string{"seen added", "seen after", "gone deleted", "gone missed"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAHandlerWithoutAFunctionIgnoresItsEvents(t *testing.T) {
	calls := 0
	handler := On(nil, func(*corev1.Pod) { calls++ })
	handler.OnAdd(pod("a"), false)
	handler.OnDelete(pod("a"))
	if calls != 1 {
		t.Errorf("gone was called %d times, want once", calls)
	}
}
