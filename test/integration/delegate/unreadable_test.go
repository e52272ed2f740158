package delegate

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestAPodChaperonThatCannotBeReadStopsNoOther has specs that API servers store and that Go cannot decode: it fails,
// panics, or never ends.
func TestAPodChaperonThatCannotBeReadStopsNoOther(t *testing.T) {
	namespace := newNamespace(t, nil)
	overhead := func(cpu string) map[string]any {
		return map[string]any{"containers": []any{}, "overhead": map[string]any{"cpu": cpu}}
	}
	for name, spec := range map[string]map[string]any{
		"fails":  {"containers": "x"},
		"panics": overhead("10000000000000000001e2147483639"),
		"hangs":  overhead("1e-999999999"),
	} {
		bad := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		bad.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperon"))
		bad.SetNamespace(namespace)
		bad.SetName(name)
		env.Must(t, target.Client.Create(t.Context(), bad))
	}
	waitForDelegate(t, create(t, namespace, named("before-a-restart")))
	for _, name := range []string{"fails", "panics", "hangs"} {
		expectRefused(t, &v1alpha1.PodChaperon{ObjectMeta: env.Meta(namespace, name)}, "cannot read", "spec: ")
	}

	// A manager that starts now reads a list with these.
	var restarted cache.Cache
	env.RunManager(t, target.Config, func(mgr ctrl.Manager) error {
		restarted = mgr.GetCache()
		recorder := mgr.GetEventRecorder("chaperon")
		return chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, recorder, "").Register(mgr)
	})
	env.WaitForCache(t, restarted)
	chaperons := &v1alpha1.PodChaperonList{}
	env.Must(t, restarted.List(t.Context(), chaperons, client.InNamespace(namespace)))
	if len(chaperons.Items) != 4 {
		t.Errorf("%d PodChaperons, want 4", len(chaperons.Items))
	}
}
