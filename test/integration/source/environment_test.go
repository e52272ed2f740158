package source

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The tests share the cluster. They run one after the other, each with its own controllers and names.
var cluster *env.Cluster

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		cluster = env.Start(t, "target")[0]
		cluster.InstallSourceRoles(t)
	})
}

// run runs the controllers until stop is called, or the test ends.
func run(t *testing.T, sourceClusterRole string) (stop func()) {
	t.Helper()
	return env.RunManager(t, cluster.Config, func(mgr ctrl.Manager) error {
		return source.New(source.Options{
			Client:                       mgr.GetClient(),
			APIReader:                    mgr.GetAPIReader(),
			Clock:                        clock.RealClock{},
			Recorder:                     mgr.GetEventRecorder("sources"),
			SourceClusterRoleName:        sourceClusterRole,
			LeavingClusterRoleName:       env.LeavingRole,
			SummaryViewerClusterRoleName: env.SummaryViewerRole,
			EarlierClusterRoleName:       env.EarlierRole,
			ReleaseNamespace:             env.ReleaseNamespace,
		}).Register(t.Context(), mgr)
	})
}

// waitReady waits until the condition Ready of a Source or ClusterSource has a status, and returns its message.
func waitReady(t *testing.T, object client.Object, status metav1.ConditionStatus) (message string) {
	t.Helper()
	env.WaitFor(t, cluster, object, func(object client.Object) error {
		var conditions []metav1.Condition
		switch o := object.(type) {
		case *v1alpha1.Source:
			conditions = o.Status.Conditions
		case *v1alpha1.ClusterSource:
			conditions = o.Status.Conditions
		}
		condition := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		if condition == nil || condition.Status != status || condition.ObservedGeneration != object.GetGeneration() {
			return fmt.Errorf("condition is %+v", condition)
		}
		message = condition.Message
		return nil
	})
	return message
}

// createSource creates a Source and waits until it is ready.
func createSource(t *testing.T, namespace, name string, spec v1alpha1.SourceSpec) *v1alpha1.Source {
	t.Helper()
	object := &v1alpha1.Source{ObjectMeta: env.Meta(namespace, name), Spec: spec}
	env.Create(t, cluster, object)
	waitReady(t, object, metav1.ConditionTrue)
	return object
}

// createClusterSource creates a ClusterSource and waits until it is ready.
func createClusterSource(t *testing.T, name string, spec v1alpha1.ClusterSourceSpec) *v1alpha1.ClusterSource {
	t.Helper()
	object := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	env.Create(t, cluster, object)
	waitReady(t, object, metav1.ConditionTrue)
	return object
}
