//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	etcdImage   = "localhost/etcd:dev"
	etcdMembers = 3
	etcdData    = "/data/etcd"
	// etcdURL is the URL of a member by its name, at a port. The name is one of the headless Service.
	etcdURL = "http://%s.etcd:%d"
	// clientPort and peerPort are those that etcd usually has.
	clientPort, peerPort = 2379, 2380
	// enoughWrites shows that etcd works.
	enoughWrites = 25
	// longestGap is the longest time between two writes, also on a busy machine. Most of it is an election.
	longestGap = 20 * time.Second

	// etcdPlacement spreads the members over both targets, with two of three in c2. A drained node does not count.
	etcdPlacement = `
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: DoNotSchedule
  nodeTaintsPolicy: Honor
  labelSelector: {matchLabels: {app: etcd}}
affinity:
  nodeAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
        - {key: multicluster.admiralty.io/cluster-target-name, operator: In, values: [c2]}`
)

// The members know one another by name only. A member that moves has lost its data, so it joins as a new one, from an
// init container. Two of three members move, one after the other: both at once would take the quorum along.
func TestAClusterOfEtcdSurvivesTheDrainOfATarget(t *testing.T) {
	w := setUp(t)
	clusters(t.Context(), t, "load", localFile("images/etcd.tar"))
	w.takesPods(t, "admiralty-c2")
	w.isEmpty(t)
	w.deployEtcd(t)
	before := w.quiet(t, etcdMembers)
	if want := map[string]int{"admiralty-c1": 1, "admiralty-c2": 2}; !maps.Equal(before.byNode, want) {
		t.Fatalf("members by virtual node: %v, want %v", before.byNode, want)
	}
	w.nextMembersJoin(t)
	first := w.etcdLedFrom(t, before, "admiralty-c2")

	writes := w.startWriting(t)
	writes.awaitMore(t)
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "uncordon", "admiralty-c2")
	})
	w.evacuateC2(t)
	after := w.quiet(t, etcdMembers)
	if after.byNode["admiralty-c1"] != etcdMembers || len(after.delegates["c2"]) > 0 {
		t.Errorf("after the drain: %v by virtual node, %d delegates in c2", after.byNode, len(after.delegates["c2"]))
	}
	second := w.etcdAgrees(t)
	first.compare(t, second, before)
	writes.awaitMore(t)

	w.kubectl(t, "uncordon", "admiralty-c2")
	w.kubectl(t, "delete", "pod", second.leader)
	if p := w.quiet(t, etcdMembers); p.byNode["admiralty-c2"] != 1 {
		t.Errorf("after the uncordon the deleted member did not go to c2: %v by virtual node", p.byNode)
	}
	third := w.etcdAgrees(t)
	if third.ids[second.leader] == second.ids[second.leader] {
		t.Errorf("%s is the same member %s without its data", second.leader, second.ids[second.leader])
	}
	writes.awaitMore(t)
	w.expectWrites(t, writes.end(t))
}

// deployEtcd deploys a new cluster of etcd.
func (w *world) deployEtcd(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			out, err := runKubectl(context.WithoutCancel(t.Context()), "--context", "c1", "-n", w.namespace, "logs",
				"-l", "app=etcd", "--all-containers", "--ignore-errors", "--prefix", "--tail=15")
			t.Logf("logs of the members: %v\n%s", err, out)
		}
	})
	labels := map[string]string{"app": "etcd"}
	meta := metav1.ObjectMeta{Name: "etcd", Namespace: w.namespace}
	create(t, w.c1, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: labels,
		PublishNotReadyAddresses: true, // A member is ready when it has joined, and cannot join without a name.
		Ports: []corev1.ServicePort{
			{Name: "client", Port: clientPort}, {Name: "peer", Port: peerPort},
		},
	}})
	create(t, w.c1, &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
	}})
	create(t, w.c1, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(etcdMembers)), ServiceName: "etcd", PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		Selector:       &metav1.LabelSelector{MatchLabels: labels},
		Template:       etcdTemplate(),
	}})
}

// etcdTemplate returns the template of the first members.
func etcdTemplate() corev1.PodTemplateSpec {
	template := podTemplate("etcd",
		"--name=$(POD_NAME)", "--data-dir="+etcdData,
		"--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls="+etcdURLOf("$(POD_NAME)", clientPort),
		"--listen-peer-urls=http://0.0.0.0:2380", "--initial-advertise-peer-urls="+etcdURLOf("$(POD_NAME)", peerPort),
		"--initial-cluster="+etcdCluster(), "--initial-cluster-state=$(STATE)",
		"--heartbeat-interval=300", "--election-timeout=3000") // As etcd advises if members are far from one another.
	template.Annotations[v1alpha1.AnnotationProxyConstraints] = etcdPlacement
	template.Spec.TerminationGracePeriodSeconds = new(int64(15))
	template.Spec.Volumes = []corev1.Volume{{
		Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	container := &template.Spec.Containers[0]
	container.Name, container.Image = "etcd", etcdImage
	container.Env = []corev1.EnvVar{etcdName(), {Name: "STATE", Value: "new"}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	container.ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intOrString(clientPort)},
		},
		PeriodSeconds: 1, TimeoutSeconds: 2,
	}
	return template
}

func etcdName() corev1.EnvVar {
	return corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}}
}

func etcdURLOf(name string, port int) string { return fmt.Sprintf(etcdURL, name, port) }

// etcdPods returns the names of the members.
func etcdPods() (names []string) {
	for i := range etcdMembers {
		names = append(names, fmt.Sprintf("etcd-%d", i))
	}
	return names
}

// etcdCluster returns the names and URLs of the members, as etcd wants them.
func etcdCluster() string {
	var members []string
	for _, name := range etcdPods() {
		members = append(members, name+"="+etcdURLOf(name, peerPort))
	}
	return strings.Join(members, ",")
}

// nextMembersJoin changes the template for pods that are created from now on: each joins the cluster as a new member.
func (w *world) nextMembersJoin(t *testing.T) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "etcd"}, set); err != nil {
		t.Fatal(err)
	}
	before := set.DeepCopy()
	spec := &set.Spec.Template.Spec
	join := corev1.Container{
		Name: "join", Image: image, ImagePullPolicy: corev1.PullNever, Env: []corev1.EnvVar{etcdName()},
		Args:         []string{"etcd-join", "--data", etcdData, "--peer", etcdURLOf("$(POD_NAME)", peerPort)},
		VolumeMounts: spec.Containers[0].VolumeMounts,
	}
	for _, name := range etcdPods() {
		join.Args = append(join.Args, etcdURLOf(name, clientPort))
	}
	spec.InitContainers = []corev1.Container{join}
	spec.Containers[0].Env[1].Value = "existing"
	if err := w.c1.Patch(t.Context(), set, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	want := set.Generation
	eventually(t, "the controller to see the new template", func(ctx context.Context) error {
		if err := w.c1.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if set.Status.ObservedGeneration < want {
			return fmt.Errorf("it has seen generation %d, not %d", set.Status.ObservedGeneration, want)
		}
		return nil
	})
}

// evacuateC2 drains c2. The drain has to wait until the first of two members has joined in c1.
func (w *world) evacuateC2(t *testing.T) {
	t.Helper()
	out := w.kubectl(t, "drain", "admiralty-c2", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=5m")
	if !strings.Contains(out, "disruption budget") {
		t.Errorf("the drain never had to wait for the budget:\n%s", out)
	}
}
