//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// kernelHostname is the host name that a process sees.
const kernelHostname = "/proc/sys/kernel/hostname"

// TestContainersOfAStatefulSetSeeTheirOwnPods has one pod in each target.
func TestContainersOfAStatefulSetSeeTheirOwnPods(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.namespace},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "db"},
			Ports: []corev1.ServicePort{{Port: 8080}},
		},
	})
	create(t, w.c1, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: w.namespace},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), ServiceName: "db", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: curiousTemplate(),
		},
	})
	for _, name := range []string{"db-0", "db-1"} {
		pod := w.reaches(t, name, corev1.PodRunning)
		w.sees(t, pod, name, "env", "POD_NAME")
		w.sees(t, pod, string(pod.UID), "env", "POD_UID")
		w.sees(t, pod, strings.TrimPrefix(name, "db-"), "env", "INDEX")
		w.sees(t, pod, "I am "+name+" of $(POD_NAME)", "env", "TEXT")
		w.sees(t, pod, name, "cat", kernelHostname)
		w.sees(t, pod, name, "cat", "/etc/pod/name")
		w.sees(t, pod, fileOf(pod.Labels), "cat", "/etc/pod/labels")
		w.sees(t, pod, fileOf(map[string]string{
			v1alpha1.AnnotationElect: "", "example.com/note": "\"quoted\"\n$(POD_NAME)",
		}), "cat", "/etc/pod/annotations")
		_, delegate := w.delegateOf(t, pod)
		w.sees(t, pod, delegate.Status.PodIP, "env", "POD_IP")
	}
}

// curiousTemplate returns a template whose containers show what they know of their pod.
func curiousTemplate() corev1.PodTemplateSpec {
	template := podTemplate("db")
	template.Annotations["example.com/note"] = "\"quoted\"\n$(POD_NAME)"
	ref := func(path string) *corev1.ObjectFieldSelector { return &corev1.ObjectFieldSelector{FieldPath: path} }
	variable := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: ref(path)}}
	}
	container := &template.Spec.Containers[0]
	container.Env = []corev1.EnvVar{
		variable("POD_NAME", "metadata.name"), variable("POD_UID", "metadata.uid"), variable("POD_IP", "status.podIP"),
		variable("INDEX", "metadata.labels['apps.kubernetes.io/pod-index']"),
		{Name: "TEXT", Value: "I am $(POD_NAME) of $$(POD_NAME)"},
	}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "pod", MountPath: "/etc/pod"}}
	template.Spec.Volumes = []corev1.Volume{{Name: "pod", VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: ref("metadata.name")},
			{Path: "labels", FieldRef: ref("metadata.labels")},
			{Path: "annotations", FieldRef: ref("metadata.annotations")},
		}},
	}}}
	return template
}

// fileOf returns the file of labels or annotations that a kubelet writes.
func fileOf(values map[string]string) string {
	var lines []string
	for key, value := range values {
		lines = append(lines, fmt.Sprintf("%s=%q", key, value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// sees expects that a command of the test image prints the text in the pod's container.
func (w *world) sees(t *testing.T, pod *corev1.Pod, want string, command ...string) {
	t.Helper()
	args := append([]string{"exec", pod.Name, "-c", "whoami", "--", "/whoami"}, command...)
	if diff := cmp.Diff(want, strings.TrimSuffix(w.kubectl(t, args...), "\n")); diff != "" {
		t.Errorf("%s in %s (-want +got):\n%s", strings.Join(command, " "), pod.Name, diff)
	}
}

// TestTheFirstPodOfATargetHasTheVariablesOfServices has the Service of the pod, and one of another target's pod.
func TestTheFirstPodOfATargetHasTheVariablesOfServices(t *testing.T) {
	w := setUp(t)
	for _, name := range []string{"db", "web"} {
		create(t, w.c1, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace},
			Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 8080}},
			},
		})
	}
	create(t, w.c1, w.pod("db", inTarget("c1", podTemplate("db"))))
	eventually(t, "the Service db to have an endpoint", func(ctx context.Context) error {
		of := client.MatchingLabels{discoveryv1.LabelServiceName: "db"}
		list := &discoveryv1.EndpointSliceList{}
		if err := w.c1.List(ctx, list, client.InNamespace(w.namespace), of); err != nil {
			return err
		}
		if len(list.Items) == 0 || len(list.Items[0].Endpoints) == 0 {
			return errors.New("it has none")
		}
		return nil
	})
	create(t, w.c1, w.pod("web", inTarget("c2", podTemplate("web"))))
	pod := w.reaches(t, "web", corev1.PodRunning)
	w.sees(t, pod, "8080\n8080", "env", "WEB_SERVICE_PORT", "DB_SERVICE_PORT")
}

// TestHostNamesOfPods compares what a plain pod and an elected pod of the same name see.
func TestHostNamesOfPods(t *testing.T) {
	w := setUp(t)
	for _, name := range []string{"web", "db.eu", strings.Repeat("x", 62) + "-and-more"} {
		template := podTemplate("web")
		pod := w.pod(name, template)
		plain := pod.DeepCopy()
		delete(plain.Annotations, v1alpha1.AnnotationElect)
		create(t, w.c1, plain)
		running := w.reaches(t, name, corev1.PodRunning)
		want := strings.TrimSuffix(w.kubectl(t, "exec", name, "--", "/whoami", "cat", kernelHostname), "\n")
		if err := w.c1.Delete(t.Context(), running, client.GracePeriodSeconds(1)); err != nil {
			t.Fatal(err)
		}
		gone(t, w.c1, running)
		create(t, w.c1, pod)
		w.sees(t, w.reaches(t, name, corev1.PodRunning), want, "cat", kernelHostname)
	}

	own := podTemplate("own")
	own.Annotations[v1alpha1.AnnotationPodIdentity] = v1alpha1.PodIdentityDelegate
	create(t, w.c1, w.pod("own", own))
	pod := w.reaches(t, "own", corev1.PodRunning)
	_, delegate := w.delegateOf(t, pod)
	w.sees(t, pod, delegate.Name, "cat", kernelHostname)
}

// TestAPodKeepsAwayFromPodsOfItsOwnSourceOnly has a pod of the target's own, with the same label on its only real node.
func TestAPodKeepsAwayFromPodsOfItsOwnSourceOnly(t *testing.T) {
	w := setUp(t)
	apart := func(name string) *corev1.Pod {
		template := inTarget("c2", podTemplate("apart"))
		template.Annotations[v1alpha1.AnnotationNoPrefixLabelRegexp] = "^app="
		template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey:   corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "apart"}},
			}},
		}}
		return w.pod(name, template)
	}
	theirs := w.pod("theirs", podTemplate("apart"))
	delete(theirs.Annotations, v1alpha1.AnnotationElect)
	create(t, w.c2, theirs)
	eventually(t, "the target's own pod to run", func(ctx context.Context) error {
		if err := w.c2.Get(ctx, client.ObjectKeyFromObject(theirs), theirs); err != nil {
			return err
		}
		if theirs.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", theirs.Status.Phase)
		}
		return nil
	})
	create(t, w.c1, apart("first"))
	w.reaches(t, "first", corev1.PodRunning)
}
