//go:build e2e && three

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// volumes makes a storage class of the test's own in each cluster, and as many volumes of this class on the node's
// disk.
func (w *three) volumes(t *testing.T, count int) (class string) {
	t.Helper()
	class = w.namespace
	dir := localFile("e2e-volumes-" + w.namespace)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, c := range w.all() {
		create(t, c, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "kubernetes.io/no-provisioner",
			VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
		})
		if c == w.c1 {
			continue
		}
		for i := range count {
			name := fmt.Sprintf("%s-%d", class, i)
			create(t, c, &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: corev1.PersistentVolumeSpec{
					StorageClassName: class,
					Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						HostPath: &corev1.HostPathVolumeSource{
							Path: dir + "/" + c.name + "-" + name,
							Type: new(corev1.HostPathDirectoryOrCreate),
						},
					},
				},
			})
		}
	}
	return class
}

// inC2OrC3 returns the template with a constraint: its pods run only in the targets c2 and c3.
func inC2OrC3(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	const targets = "{key: multicluster.admiralty.io/cluster-target-name, operator: In, values: [c2, c3]}"
	template.Annotations[v1alpha1.AnnotationProxyConstraints] = "affinity: {nodeAffinity: {" +
		"requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [" + targets + "]}]}}}"
	return template
}

// database returns a StatefulSet of elected pods. Each has a claim, which follows the pod to c2 or c3.
func (w *three) database(class string, replicas int32) *appsv1.StatefulSet {
	template := inC2OrC3(podTemplate("db"))
	template.Spec.TerminationGracePeriodSeconds = new(int64(3))
	template.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))} // owns the folder
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return &appsv1.StatefulSet{
		ObjectMeta: w.meta("db", nil),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "db", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: template,
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
				{
					ObjectMeta: metav1.ObjectMeta{
						Name:        "data",
						Annotations: map[string]string{v1alpha1.AnnotationFollow: ""},
					},
					Spec: corev1.PersistentVolumeClaimSpec{
						StorageClassName: &class,
						AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{
							Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
						},
					},
				},
			},
		},
	}
}

// running waits until a pod of the StatefulSet runs, and returns its delegate and the delegate's cluster.
func (w *three) running(t *testing.T, name string) (*cluster, *corev1.Pod) {
	t.Helper()
	var where *cluster
	var delegate *corev1.Pod
	eventually(t, name+" to run", func(ctx context.Context) error {
		proxy := &corev1.Pod{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, proxy); err != nil {
			return err
		}
		if !ready(proxy) || proxy.DeletionTimestamp != nil {
			return fmt.Errorf("it is %s: %v", proxy.Status.Phase, proxy.Status.Conditions)
		}
		for _, c := range w.all() {
			_, delegates, err := w.pods(ctx, c)
			if err != nil {
				return err
			}
			for i := range delegates {
				if delegates[i].Labels[v1alpha1.LabelParentUID] == string(proxy.UID) {
					where, delegate = c, &delegates[i]
					return nil
				}
			}
		}
		return fmt.Errorf("it has no delegate")
	})
	return where, delegate
}

func TestFollowingAStatefulSetStaysWithItsData(t *testing.T) {
	w := setUpThree(t)
	t.Cleanup(func() {
		_, _ = runKubectl(
			context.WithoutCancel(t.Context()),
			"--context",
			"c1",
			"uncordon",
			"admiralty-c2",
			"admiralty-c3",
		)
	})
	create(t, w.c1, w.database(w.volumes(t, 2), 2))
	where := map[string]*cluster{}
	for _, name := range []string{"db-0", "db-1"} {
		c, delegate := w.running(t, name)
		where[name] = c
		w.inside(t, c, delegate, "write", "/data/file", name)
	}

	c := where["db-0"]
	w.kubectl(t, "cordon", "admiralty-"+c.name)
	w.kubectl(t, "delete", "pod", "db-0")
	w.waitsBecause(t, "db-0", `claim "data-db-0" is in `+c.name)
	w.kubectl(t, "uncordon", "admiralty-"+c.name)
	for name, before := range where {
		after, delegate := w.running(t, name)
		if after != before {
			t.Fatalf("%s runs in %s, its data is in %s", name, after.name, before.name)
		}
		if got := strings.TrimSpace(w.inside(t, after, delegate, "cat", "/data/file")); got != name {
			t.Errorf("%s finds %q in its volume", name, got)
		}
	}

	w.kubectl(t, "delete", "statefulset", "db")
	w.claimsOutlivePods(t, 2)
}

// claimsOutlivePods fails unless so many copies of claims stay when all pods are gone, and none when the claims are
// gone.
func (w *three) claimsOutlivePods(t *testing.T, count int) {
	t.Helper()
	claims := &corev1.PersistentVolumeClaimList{}
	eventually(t, "the pods to be gone", func(ctx context.Context) error {
		for _, c := range w.all() {
			pods := &corev1.PodList{}
			if err := c.List(ctx, pods, client.InNamespace(w.namespace)); err != nil || len(pods.Items) > 0 {
				return fmt.Errorf("%d pods in %s, %w", len(pods.Items), c.name, err)
			}
		}
		return nil
	})
	left := 0
	for _, c := range []*cluster{w.c2, w.c3} {
		if err := c.List(t.Context(), claims, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
		left += len(claims.Items)
	}
	if left != count {
		t.Errorf("%d claims are left without pods, want %d", left, count)
	}
	w.kubectl(t, "delete", "pvc", "--all")
	for _, c := range []*cluster{w.c2, w.c3} {
		eventually(t, "no claim to be left in "+c.name, func(ctx context.Context) error {
			if err := c.List(ctx, claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) > 0 {
				return fmt.Errorf("%d are left, %w", len(claims.Items), err)
			}
			return nil
		})
	}
}

// TestFollowingAClaimWithoutDataLeavesTheTargetThatRefusesItsPod makes a claim first in c2, whose quota refuses the
// pod, and then in c3. It then replaces the claim by what its user wrote.
func TestFollowingAClaimWithoutDataLeavesTheTargetThatRefusesItsPod(t *testing.T) {
	w := setUpThree(t)
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c3")
	})
	w.refusesPods(t, w.c2)
	w.kubectl(t, "cordon", "admiralty-c3")
	create(t, w.c1, w.database(w.volumes(t, 1), 1))
	w.waitsBecause(t, "db-0", "exceeded quota")

	w.kubectl(t, "uncordon", "admiralty-c3")
	c, delegate := w.running(t, "db-0")
	if c != w.c3 {
		t.Fatalf("db-0 runs in %s", c.name)
	}
	w.inside(t, c, delegate, "write", "/data/file", "data")
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.c2.List(t.Context(), claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) > 0 {
		t.Errorf("c2 has %d claims, error %v", len(claims.Items), err)
	}

	if err := w.c2.Delete(t.Context(), &corev1.ResourceQuota{ObjectMeta: w.meta("no-pods", nil)}); err != nil {
		t.Fatal(err)
	}
	w.kubectl(t, "cordon", "admiralty-c3")
	w.replaceClaim(t)
	w.kubectl(t, "delete", "pod", "db-0")
	w.waitsBecause(t, "db-0", `claim "data-db-0" is in c3`)
	w.kubectl(t, "uncordon", "admiralty-c3")
	c, delegate = w.running(t, "db-0")
	if c != w.c3 {
		t.Fatalf("without the annotation, db-0 runs in %s", c.name)
	}
	if got := strings.TrimSpace(w.inside(t, c, delegate, "cat", "/data/file")); got != "data" {
		t.Errorf("db-0 finds %q in its volume", got)
	}
}

// replaceClaim replaces the claim of db-0 by what its user wrote, as GitOps tools do: without the annotations that say
// where the copy is.
func (w *three) replaceClaim(t *testing.T) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "data-db-0"}, claim); err != nil {
		t.Fatal(err)
	}
	claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	claim.ObjectMeta = metav1.ObjectMeta{
		Namespace: claim.Namespace, Name: claim.Name, Labels: claim.Labels,
		Annotations: map[string]string{v1alpha1.AnnotationFollow: ""},
	}
	manifest, err := json.Marshal(claim)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "claim.json")
	if err := os.WriteFile(path, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubectl(t, "replace", "-f", path)
}

// TestFollowingAPodThatWaitsTakesItsClaimAlong has a pod that waits for a new node of c2, with a claim that was made
// there for it. Then c3 has room.
func TestFollowingAPodThatWaitsTakesItsClaimAlong(t *testing.T) {
	w := setUpThree(t)
	const nodes = `[{"allocatable":{"cpu":"8","memory":"8Gi","example.com/slots":"4"}}]`
	w.policy(t, "c2", `{"scaleUp":{"nodeClasses":`+nodes+`}}`)
	database := w.database(w.volumes(t, 1), 1)
	database.Spec.Template = withSlots(database.Spec.Template, 1)
	create(t, w.c1, database)
	w.pending(t, "db-0", "Trying c2, which can add nodes")
	w.claimIsIn(t, "c2")
	giveSlots(t, w.c3, 1)
	c, delegate := w.running(t, "db-0")
	if c != w.c3 {
		t.Fatalf("db-0 runs in %s", c.name)
	}
	w.inside(t, c, delegate, "write", "/data/file", "data")
	w.claimIsIn(t, "c3")
	claims := &corev1.PersistentVolumeClaimList{}
	if err := w.c2.List(t.Context(), claims, client.InNamespace(w.namespace)); err != nil || len(claims.Items) > 0 {
		t.Errorf("c2 has %d claims, error %v", len(claims.Items), err)
	}
}

// claimIsIn waits until the claim of db-0 says that its copy is in a target.
func (w *three) claimIsIn(t *testing.T, target string) {
	t.Helper()
	eventually(t, "the claim to be in "+target, func(ctx context.Context) error {
		claim := &corev1.PersistentVolumeClaim{}
		err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "data-db-0"}, claim)
		if at := claim.Annotations[v1alpha1.AnnotationFollowedTo]; err == nil && at != target {
			return fmt.Errorf("it is in %q", at)
		}
		return err
	})
}

// refusesPods gives a cluster a quota that lets no pods into the namespace.
func (w *three) refusesPods(t *testing.T, c *cluster) {
	t.Helper()
	create(t, c, &corev1.ResourceQuota{
		ObjectMeta: w.meta("no-pods", nil),
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	})
	eventually(t, "the quota to count", func(ctx context.Context) error {
		quota := &corev1.ResourceQuota{}
		err := c.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "no-pods"}, quota)
		if err == nil && len(quota.Status.Hard) == 0 {
			err = fmt.Errorf("its status is %v", quota.Status)
		}
		return err
	})
}

// waitsBecause waits until a pod says why it is not scheduled.
func (w *three) waitsBecause(t *testing.T, name, reason string) {
	t.Helper()
	eventually(t, name+" to wait because "+reason, func(ctx context.Context) error {
		out, err := runKubectl(ctx, "--context", "c1", "--namespace", w.namespace, "get", "pod", name,
			"-o", `jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}`)
		if err != nil || !strings.Contains(out, reason) {
			return fmt.Errorf("it says: %s %w", out, err)
		}
		return nil
	})
}

func TestFollowingAPodGoesWhereItsClaimIs(t *testing.T) {
	w := setUpThree(t)
	class := w.volumes(t, 1)
	create(
		t,
		w.c3,
		&corev1.PersistentVolumeClaim{ObjectMeta: w.meta("archive", nil), Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		}},
	)
	template := podTemplate("reader")
	template.Spec.Volumes = []corev1.Volume{{Name: "archive", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "archive"},
	}}}
	template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "archive", MountPath: "/archive"}}
	create(t, w.c1, w.pod("reader", template))
	if c, _ := w.running(t, "reader"); c != w.c3 {
		t.Errorf("the pod runs in %s, its claim is in c3", c.name)
	}
}
