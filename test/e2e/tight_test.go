//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestAFullQuotaOfATargetKeepsNoFileFromChanging has a leader that has made the copy. See also
// TestANewLeaderUpdatesACopyDespiteAFullQuota.
func TestAFullQuotaOfATargetKeepsNoFileFromChanging(t *testing.T) {
	w := setUp(t)
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "greeting"}
	create(t, w.c1, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": "hello"}})
	create(t, w.c1, w.pod("reads", readsGreeting("reads")))
	_, delegate := w.delegateOf(t, w.reaches(t, "reads", corev1.PodRunning))
	eventuallyOutput(t, w, "hello", "exec", "reads", "--", "/whoami", "cat", "/greeting/text")

	w.fillsUp(t, w.c2, "count/configmaps")
	w.kubectl(t, "patch", "configmap", "greeting", "--type=merge", "-p", `{"data":{"text":"good-bye"}}`)
	eventually(t, "the copy to change", func(ctx context.Context) error {
		written := &corev1.ConfigMap{}
		err := w.c2.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "greeting"}, written)
		if err == nil && written.Data["text"] != "good-bye" {
			err = fmt.Errorf("it says %q", written.Data["text"])
		}
		return err
	})
	// A kubelet updates files when it looks at the pod: about once a minute, or when the pod changes.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"look":"again"}}}`))
	if err := w.c2.Patch(t.Context(), delegate, patch); err != nil {
		t.Fatal(err)
	}
	eventuallyOutput(t, w, "good-bye", "exec", "reads", "--", "/whoami", "cat", "/greeting/text")
}

// readsGreeting is a pod in c2 that mounts the ConfigMap "greeting".
func readsGreeting(app string) corev1.PodTemplateSpec {
	template := inTarget("c2", podTemplate(app))
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "greeting", MountPath: "/greeting"}}
	template.Spec.Volumes = []corev1.Volume{{Name: "greeting", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "greeting"}},
	}}}
	return template
}

// fillsUp gives a cluster a quota of objects in the namespace that has no room for another one, and waits until it is
// enforced.
func (w *world) fillsUp(t *testing.T, c *cluster, name corev1.ResourceName) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "full"}
	create(t, c, &corev1.ResourceQuota{ObjectMeta: meta, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{name: resource.MustParse("0")},
	}})
	eventually(t, "the quota of "+c.name+" to be full", func(ctx context.Context) error {
		another := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "another"}}
		err := c.Create(ctx, another, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("another object is not refused: %w", err)
	})
}

func TestAClaimWithADataSourceIsNotMadeEmpty(t *testing.T) {
	w := setUp(t)
	meta := metav1.ObjectMeta{
		Namespace: w.namespace, Name: "data", Annotations: map[string]string{v1alpha1.AnnotationFollow: ""},
	}
	create(t, w.c1, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		DataSource:  &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "snapshot"},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}})
	template := inTarget("c2", podTemplate("restores"))
	template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}}
	create(t, w.c1, w.pod("restores", template))
	const reason = `claim "data" is to be filled from PersistentVolumeClaim "snapshot"`
	eventuallyOutput(t, w, reason, "get", "pod", "restores", "-o", "jsonpath={.status.conditions[*].message}")
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.c2.List(t.Context(), claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) > 0 {
		t.Errorf("c2 has %d claims, error %v", len(claims.Items), err)
	}
	if chaperons := w.chaperonsIn(t, w.c2); len(chaperons) > 0 {
		t.Errorf("c2 was given %d pods", len(chaperons))
	}
}

func TestANetworkPolicyThatDoesNotApplyInTargetsSaysSo(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "closed"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	})
	create(t, w.c1, w.pod("guarded", inTarget("c2", podTemplate("guarded"))))
	eventuallyOutput(t, w, "elected pods that it selects, such as guarded", "events", "--for", "networkpolicy/closed")
}
