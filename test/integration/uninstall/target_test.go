package uninstall

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager/uninstall"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// world is what sources have in this cluster.
type world struct {
	chaperon         *v1alpha1.PodChaperon
	copies           []client.Object
	claim, own, fake client.Object
}

func newWorld(t *testing.T) world {
	t.Helper()
	namespace := env.Namespace(t, nil, cluster)
	w := world{chaperon: env.Chaperon(namespace, "web", "c9", types.NamespacedName{Name: "c1"})}
	copied := env.Meta(namespace, "copied")
	copied.Labels = map[string]string{v1alpha1.LabelParentClusterID: "c9"}
	copied.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: "c9", v1alpha1.AnnotationGlobal: "true"}
	ports := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	w.copies = []client.Object{
		&corev1.ConfigMap{ObjectMeta: *copied.DeepCopy()}, &corev1.Secret{ObjectMeta: *copied.DeepCopy()},
		&corev1.ServiceAccount{ObjectMeta: *copied.DeepCopy()},
		&corev1.Service{ObjectMeta: *copied.DeepCopy(), Spec: ports},
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: *copied.DeepCopy()}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	w.claim = claim
	w.own = &corev1.ConfigMap{ObjectMeta: env.Meta(namespace, "own")}
	fake := &corev1.ConfigMap{ObjectMeta: env.Meta(namespace, "fake")}
	fake.Labels = copied.Labels
	w.fake = fake
	env.Create(t, cluster, append(w.copies, w.chaperon, w.claim, w.own, w.fake)...)
	return w
}

func (w *world) expectCopies(t *testing.T, want bool) {
	t.Helper()
	for _, object := range w.copies {
		if env.Exists(t, cluster, object) != want {
			t.Errorf("a copy, a %T, exists: %t, want %t", object, !want, want)
		}
	}
	for _, object := range []client.Object{w.claim, w.own, w.fake} {
		if !env.Exists(t, cluster, object) || object.GetDeletionTimestamp() != nil {
			t.Errorf("%T %s was deleted, and is no copy, or data", object, object.GetName())
		}
	}
}

func TestATargetEndsDelegatesOnceSourcesPlaceNoMore(t *testing.T) {
	r := install(t, 1, "--set", "roles.source=false")
	w := newWorld(t)
	wait := play(t, func(context.Context) bool { // Kubernetes' garbage collector
		if env.Get(t, cluster, w.chaperon).DeletionTimestamp == nil {
			return false
		}
		if r.replicas(t) != 0 || !env.Exists(t, cluster, w.copies[0]) {
			t.Error("a delegate ends while the manager takes others, or after its needs are gone")
		}
		env.ExpectEqual(t, "finalizers", []string{metav1.FinalizerDeleteDependents}, w.chaperon.Finalizers)
		env.RemoveFinalizers(t, cluster, w.chaperon)
		return true
	})
	r.uninstall(t)
	wait()
	env.WaitGone(t, cluster, w.chaperon)
	w.expectCopies(t, false)
}

func TestATargetLeavesDelegates(t *testing.T) {
	r := install(t, 1, "--set", "uninstall.pods=leave")
	r.options.Pods = uninstall.Leave
	w := newWorld(t)
	r.uninstall(t)
	if !env.Exists(t, cluster, w.chaperon) || w.chaperon.DeletionTimestamp != nil {
		t.Error("the PodChaperon was deleted")
	}
	w.expectCopies(t, true)
	env.Delete(t, cluster, w.chaperon)
}

func TestATargetWithoutSourcesWaitsForNobody(t *testing.T) {
	r := install(t, 1)
	r.options.Notice, r.options.Timeout = time.Hour, 2*time.Hour
	r.uninstall(t)
	if r.replicas(t) != 0 {
		t.Error("the manager runs on")
	}
}
