package main

import (
	_ "embed" // for the pod
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	namespace = "memory"
	clusterID = "memory-benchmark"
	// The size of a ClusterSummary. Its bounds are 50 classes, 256 free vectors of all classes together, and 256
	// delegates of each source.
	classes       = 50
	vectors       = 5
	latest        = 256
	nodesPerClass = 100
)

// podYAML is a pod as people have them: an application with a mesh's proxy beside it, probes, environment, volumes.
//
//go:embed pod.yaml
var podYAML []byte

// newProxy returns an elected pod as admission and the scheduler leave it: a proxy, bound to a node.
func newProxy(i int, node string, of following) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(podYAML, pod); err != nil {
		return nil, fmt.Errorf("decoding pod.yaml: %w", err)
	}
	pod.Namespace, pod.Name = namespace, podName(i)
	of.addTo(pod, i)
	proxy, err := translate.Proxy(pod)
	if err != nil {
		return nil, err
	}
	proxy.Spec.NodeName = node
	return proxy, nil
}

func podName(i int) string { return fmt.Sprintf("application-7d9c5b8f6d-%05d", i) }

// newChaperon returns the PodChaperon of a proxy, with the status of a running delegate.
func newChaperon(proxy *corev1.Pod, target types.NamespacedName) (*v1alpha1.PodChaperon, error) {
	to := translate.Destination{Target: target}
	chaperon, err := translate.Chaperon(proxy, translate.Source{ClusterID: clusterID}, to)
	if err != nil {
		return nil, err
	}
	chaperon.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon"}
	chaperon.UID = proxy.UID
	chaperon.CreationTimestamp = proxy.CreationTimestamp
	chaperon.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldOwner, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: v1alpha1.GroupVersion.String(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{},"f:labels":{}},"f:spec":{}}`),
	}}
	chaperon.Status = runningStatus(proxy)
	return chaperon, nil
}

func runningStatus(proxy *corev1.Pod) corev1.PodStatus {
	since := proxy.CreationTimestamp
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &since, QOSClass: corev1.PodQOSBurstable,
		HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
		PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}},
	}
	for _, condition := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady,
		corev1.ContainersReady, corev1.PodScheduled,
	} {
		status.Conditions = append(status.Conditions,
			corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: since})
	}
	for _, container := range proxy.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: true, Started: new(true),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
			ImageID:     container.Image + "@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
			ContainerID: "containerd://" + string(proxy.UID) + container.Name,
		})
	}
	return status
}

// newSummary returns a ClusterSummary of full size.
func newSummary(proxies []*corev1.Pod) *v1alpha1.ClusterSummary {
	summary := &v1alpha1.ClusterSummary{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ClusterSummary"},
		ObjectMeta: metav1.ObjectMeta{
			Name: v1alpha1.ClusterSummaryName, UID: "singleton",
			Labels: map[string]string{"topology.kubernetes.io/region": "region-1"},
		},
		Capacity: amounts(classes*nodesPerClass, 64), Allocatable: amounts(classes*nodesPerClass, 63),
		Status: v1alpha1.ClusterSummaryStatus{
			Nodes: classes * nodesPerClass, KubernetesVersion: version, Requested: amounts(classes*nodesPerClass, 20),
			CommonLabels: map[string]string{"kubernetes.io/os": "linux"}, OmittedLabels: []string{corev1.LabelHostname},
		},
	}
	used := v1alpha1.SourceUsage{ClusterID: clusterID, Requested: amounts(1, len(proxies))}
	for _, proxy := range proxies[:min(len(proxies), latest)] {
		used.Latest = append(used.Latest, string(proxy.UID[:8]))
	}
	summary.Status.Sources = []v1alpha1.SourceUsage{used}
	for i := range classes {
		summary.Status.Classes = append(summary.Status.Classes, newClass(i))
	}
	return summary
}

func newClass(i int) v1alpha1.NodeClass {
	class := v1alpha1.NodeClass{
		Nodes: nodesPerClass, Allocatable: amounts(1, 63),
		Labels: map[string]string{
			"kubernetes.io/arch":               "amd64",
			"node.kubernetes.io/instance-type": fmt.Sprintf("standard-%d", i),
			"topology.kubernetes.io/zone":      fmt.Sprintf("zone-%d", i%3),
			"example.com/pool":                 fmt.Sprintf("pool-%d", i),
		},
		Taints: []corev1.Taint{{
			Key: "example.com/dedicated", Value: fmt.Sprintf("team-%d", i), Effect: corev1.TaintEffectNoSchedule,
		}},
	}
	for j := range vectors {
		free := v1alpha1.FreeNodes{Nodes: nodesPerClass / vectors, Resources: amounts(1, 60-j)}
		class.Free = append(class.Free, free)
	}
	return class
}

func amounts(nodes, cpu int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(int64(nodes*cpu)*1000, resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(nodes*cpu)<<32, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(int64(nodes)*110, resource.DecimalSI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(int64(nodes)<<37, resource.BinarySI),
		"example.com/gpu":               *resource.NewQuantity(int64(nodes)*8, resource.DecimalSI),
	}
}
