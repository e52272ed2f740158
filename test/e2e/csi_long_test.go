//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	csiImage  = "localhost/csi:dev"
	csiDriver = "folders.example.com" // see test/csi
)

// Source and target have the driver. It gets the same from both kubelets, except that it sees the delegate: names must
// be those of a pod that the target's API server knows.
func TestAnInlineVolumeOfADriverIsTheTargets(t *testing.T) {
	w := setUp(t)
	clusters(t.Context(), t, "load", localFile("images/csi.tar"))
	for _, c := range []*cluster{w.c1, w.c2} {
		w.installDriver(t, c)
	}
	create(t, w.c1, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "key"},
		StringData: map[string]string{"word": "open"},
	})
	plain := withInlineVolume(podTemplate("volume"))
	plain.Annotations = nil
	create(t, w.c1, w.pod("plain", plain))
	create(t, w.c1, w.pod("elected", inTarget("c2", withInlineVolume(podTemplate("volume")))))
	w.reaches(t, "plain", corev1.PodRunning)
	_, delegate := w.delegateOf(t, w.reaches(t, "elected", corev1.PodRunning))

	want, got := w.fileOf(t, "plain", "attributes"), w.fileOf(t, "elected", "attributes")
	if want["color"] != "blue" || want["csi.storage.k8s.io/ephemeral"] != "true" {
		t.Fatalf("the driver was given %v for a plain pod", want)
	}
	want["csi.storage.k8s.io/pod.name"], want["csi.storage.k8s.io/pod.uid"] = delegate.Name, string(delegate.UID)
	if !maps.Equal(got, want) {
		t.Errorf("the driver was given %v for an elected pod, want %v", got, want)
	}
	if secrets := w.fileOf(t, "elected", "secrets"); secrets["word"] != "open" {
		t.Errorf("the driver was given the Secret %v", secrets)
	}

	w.kubectl(t, "delete", "pod", "elected", "plain")
	eventually(t, "the delegate to be gone", func(ctx context.Context) error {
		err := w.c2.Get(ctx, client.ObjectKeyFromObject(delegate), &corev1.Pod{})
		if err == nil {
			return fmt.Errorf("the pod %s is still there", delegate.Name)
		}
		return client.IgnoreNotFound(err)
	})
}

// installDriver runs the driver on the node of a cluster until the test ends.
func (w *world) installDriver(t *testing.T, c *cluster) {
	t.Helper()
	create(t, c, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: csiDriver},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: new(false), PodInfoOnMount: new(true),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
		},
	})
	const kubelet = "/var/lib/kubelet"
	create(t, c, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "driver-of-" + c.name},
		Spec: corev1.PodSpec{
			NodeName: c.name + "-node",
			Containers: []corev1.Container{{
				Name: "driver", Image: csiImage, ImagePullPolicy: corev1.PullNever,
				Env:          []corev1.EnvVar{{Name: "NODE", Value: c.name + "-node"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "kubelet", MountPath: kubelet}},
			}},
			Volumes: []corev1.Volume{{Name: "kubelet", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: kubelet},
			}}},
		},
	})
	eventually(t, "the driver of "+c.name+" to be known", func(ctx context.Context) error {
		node := &storagev1.CSINode{}
		err := c.Get(ctx, client.ObjectKey{Name: c.name + "-node"}, node)
		if err == nil && !slices.ContainsFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
			return d.Name == csiDriver
		}) {
			err = fmt.Errorf("its node has the drivers %v", node.Spec.Drivers)
		}
		return err
	})
}

// withInlineVolume gives the pod a volume of the driver.
func withInlineVolume(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "folder", MountPath: "/folder"}}
	template.Spec.Volumes = []corev1.Volume{{Name: "folder", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{
			Driver: csiDriver, VolumeAttributes: map[string]string{"color": "blue"},
			NodePublishSecretRef: &corev1.LocalObjectReference{Name: "key"},
		},
	}}}
	return template
}

// fileOf returns the lines KEY=VALUE of a file in the volume.
func (w *world) fileOf(t *testing.T, pod, name string) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for line := range strings.Lines(w.kubectl(t, "exec", pod, "--", "/whoami", "cat", "/folder/"+name)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		lines[key] = value
	}
	return lines
}
