package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// size is what a node has, or a pod requests: thousandths of CPUs, MiB of memory, and GPUs.
type size struct{ cpu, memory, gpus int64 }

func (s size) list() corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(s.cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(s.memory<<20, resource.BinarySI),
	}
	if s.gpus > 0 {
		list[gpu] = *resource.NewQuantity(s.gpus, resource.DecimalSI)
	}
	return list
}

// between returns a number from low to high.
func (g *generator) between(low, high int) int { return low + g.IntN(high-low+1) }

// cluster adds a cluster without nodes.
func (g *generator) cluster() *cluster {
	c := &cluster{name: fmt.Sprintf("c%d", len(g.clusters)+1)}
	g.clusters = append(g.clusters, c)
	return c
}

// add adds equal nodes, changed as asked for.
func (c *cluster) add(n int, s size, change ...func(*corev1.Node)) {
	for range n {
		node := newNode(fmt.Sprintf("%s-%d", c.name, len(c.nodes)+1), c.name, s)
		for _, f := range change {
			f(node)
		}
		c.nodes = append(c.nodes, node)
	}
}

// ofCluster is the label of nodes with the name of their cluster.
const ofCluster = "topology.kubernetes.io/region"

func newNode(name, cluster string, s size) *corev1.Node {
	has := s.list()
	has[corev1.ResourcePods] = resource.MustParse("110")
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{corev1.LabelHostname: name, ofCluster: cluster},
		},
		Status: corev1.NodeStatus{
			Capacity: has, Allocatable: has,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// daemon is the pod of a DaemonSet on a node.
func daemon(node *corev1.Node, s size) *corev1.Pod {
	controller := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "daemon-" + node.Name, Namespace: namespace,
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "daemon", Controller: &controller}},
		},
		Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Requests: s.list()},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func labelled(key, value string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Labels[key] = value }
}

func tainted(key string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

// cpus returns the thousandths of CPUs that all clusters have.
func (g *generator) cpus() int64 {
	var sum int64
	for _, c := range g.clusters {
		sum += c.cpus()
	}
	return sum
}

func (c *cluster) cpus() int64 {
	var sum int64
	for _, node := range c.nodes {
		sum += node.Status.Allocatable.Cpu().MilliValue()
	}
	return sum
}

// pods adds equal pods that arrive at the same time, changed as asked for. It returns what all request of CPUs.
func (g *generator) pods(n int, at time.Duration, s size, change ...func(*corev1.Pod)) int64 {
	kind := fmt.Sprintf("k%d", len(g.arrivals))
	for i := range n {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%d", kind, i), Namespace: namespace, Labels: map[string]string{"app": kind},
				Annotations: map[string]string{v1alpha1.AnnotationElect: ""},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Resources: corev1.ResourceRequirements{Requests: s.list()},
			}}},
		}
		for _, f := range change {
			f(pod)
		}
		g.arrivals = append(g.arrivals, &arrival{at: at, pod: pod, kind: kind})
	}
	return int64(n) * s.cpu
}

// lasting makes pods end by themselves.
func lasting(d time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Annotations[runsFor] = d.String()
	}
}

// matters makes pods more important than others.
func matters(pod *corev1.Pod) { pod.Spec.PriorityClassName = important }

func tolerating(key string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations,
			corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

func selecting(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{key: value} }
}

// spread spreads pods over nodes, if that is possible.
func spread(pod *corev1.Pod) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
}

// apart has pods on different nodes.
func apart(pod *corev1.Pod) {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}},
	}}
}

// together has all pods of the kind in one cluster.
func together(pod *corev1.Pod) {
	pod.Annotations[v1alpha1.AnnotationProxyConstraints] = fmt.Sprintf(
		`{"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [`+
			`{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": %q}}}]}}}`,
		pod.Labels["app"])
}
