package wake_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/wake"
)

func TestSourceMergesRequestsOfAStartedController(t *testing.T) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(queue.ShutDown)
	var source wake.Source
	early, late := types.NamespacedName{Name: "early"}, types.NamespacedName{Name: "late"}
	source.Wake(early)
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	source.Wake(late)
	source.Wake(late)
	if n := queue.Len(); n != 1 {
		t.Errorf("%d requests in the queue", n)
	}
	if request, _ := queue.Get(); request.NamespacedName != late {
		t.Errorf("%s was woken", request)
	}
	if source.Context() != t.Context() {
		t.Error("Context does not return the controller's context")
	}
}
