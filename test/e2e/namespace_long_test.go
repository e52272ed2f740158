//go:build e2e && long

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestProxiesGoWithTheNamespaceOfTheTargetThatTheSourceCannotReadAnyMore deletes the namespace while the source has no
// manager. The rights of the source go with it, so the next manager cannot see what became of the delegates.
func TestProxiesGoWithTheNamespaceOfTheTargetThatTheSourceCannotReadAnyMore(t *testing.T) {
	w := setUp(t)
	pod := w.pod("web", quick(inTarget("c2", podTemplate("web"))))
	create(t, w.c1, pod)
	proxy := w.reaches(t, pod.Name, corev1.PodRunning)
	if where, _ := w.delegateOf(t, proxy); where != w.c2 {
		t.Fatalf("the delegate runs in %s", where.name)
	}
	ended := w.pod("task", inTarget("c2", podTemplate("task", "exit", "3")))
	ended.Spec.RestartPolicy = corev1.RestartPolicyNever
	create(t, w.c1, ended)
	w.reaches(t, ended.Name, corev1.PodFailed)

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		scaleManager(ctx, t, w.c1, 2)
	})
	scaleManager(t.Context(), t, w.c1, 0)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := w.c2.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	gone(t, w.c2, namespace)
	scaleManager(t.Context(), t, w.c1, 2)

	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, patience)
	within(t, 2*patience, "the proxy to be gone", func(ctx context.Context) error {
		return goneIn(ctx, w.c1, proxy)
	})
	if kept := w.reaches(t, ended.Name, corev1.PodFailed); kept.UID == "" || kept.DeletionTimestamp != nil {
		t.Errorf("the proxy that had failed is %+v", kept.ObjectMeta)
	}
	// Nothing keeps the namespace of the source.
	source := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if err := w.c1.Delete(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	within(t, 2*time.Minute, "the namespace of the source to be gone", func(ctx context.Context) error {
		return goneIn(ctx, w.c1, source)
	})
}
