package quality

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	gpu       = corev1.ResourceName("nvidia.com/gpu")
	hugePages = corev1.ResourceName("hugepages-2Mi")
	mebi      = 1 << 20
)

// cluster is the nodes and pods of a cluster, as its API server would list them.
type cluster struct {
	nodes []*corev1.Node
	pods  []*corev1.Pod
}

// real returns the nodes that are not virtual.
func (c *cluster) real() []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *corev1.Node) bool {
		return n.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue
	})
}

// assigned returns the pods that kube-scheduler sees on real nodes. It does not watch pods that have finished.
func (c *cluster) assigned() []*corev1.Pod {
	known := map[string]bool{}
	for _, node := range c.real() {
		known[node.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(c.pods), func(p *corev1.Pod) bool {
		return !known[p.Spec.NodeName] || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
}

// generator generates clusters and pods, the same ones for the same seed.
type generator struct {
	*rand.Rand
	// variety is larger for more different labels and taints.
	variety int
	serial  int
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) cluster(nodes int) *cluster {
	c := &cluster{}
	for i := range nodes {
		node := g.node(i)
		c.nodes = append(c.nodes, node)
		for range g.IntN(7) {
			pod := g.pod()
			pod.Spec.NodeName = node.Name
			g.live(pod)
			c.pods = append(c.pods, pod)
		}
	}
	for range g.IntN(3) {
		c.pods = append(c.pods, g.pod()) // pending
	}
	return c
}

func (g *generator) node(i int) *corev1.Node {
	allocatable := corev1.ResourceList{
		corev1.ResourcePods:   *resource.NewQuantity(int64(pick(g, 0, 3, 5, 8, 110)), resource.DecimalSI),
		corev1.ResourceCPU:    *resource.NewMilliQuantity(int64(g.IntN(16_000)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(g.IntN(64<<30)), resource.BinarySI),
	}
	if g.chance(80) {
		allocatable[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(g.IntN(100<<30)), resource.BinarySI)
	}
	if g.chance(30) {
		allocatable[gpu] = *resource.NewQuantity(int64(g.IntN(9)), resource.DecimalSI)
	}
	if g.chance(30) {
		allocatable[hugePages] = *resource.NewQuantity(int64(2*mebi*g.IntN(512)), resource.BinarySI)
	}
	if g.chance(50) { // equal nodes
		allocatable[corev1.ResourceCPU] = resource.MustParse("8")
		allocatable[corev1.ResourceMemory] = resource.MustParse("32Gi")
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-" + strconv.Itoa(i), Labels: g.labels(i)},
		Status: corev1.NodeStatus{
			Capacity: allocatable, Allocatable: allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if g.chance(3) {
		node.Labels[v1alpha1.LabelNodeProvider] = v1alpha1.LabelNodeProviderValue
	}
	g.taint(node)
	return node
}

func (g *generator) labels(i int) map[string]string {
	labels := map[string]string{
		"kubernetes.io/os":       "linux",
		corev1.LabelArchStable:   pick(g, []string{"amd64", "arm64"}[:min(2, g.variety)]...),
		corev1.LabelTopologyZone: "zone-" + strconv.Itoa(g.IntN(1+g.variety)),
		"example.com/cores":      strconv.Itoa(8 * g.IntN(g.variety)),
	}
	if g.chance(90) {
		labels[corev1.LabelHostname] = "node-" + strconv.Itoa(i)
	}
	if g.variety > 1 && g.chance(30) {
		labels["gpu"] = pick(g, "a100", "h100", "")
	}
	if g.variety > 3 && g.chance(50) {
		labels["example.com/rack"] = strconv.Itoa(g.IntN(8 * g.variety))
	}
	return labels
}

// taint taints the node as kubelets, controllers and administrators do.
func (g *generator) taint(node *corev1.Node) {
	add := func(key, value string, effect corev1.TaintEffect) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
	if g.chance(min(25, 10*g.variety)) {
		add("dedicated", pick(g, "ml", "web", "5", "50"), pick(g, effects...))
	}
	if g.variety > 1 && g.chance(10) {
		add("spot", "", pick(g, effects...))
	}
	if g.chance(8) {
		node.Spec.Unschedulable = true
		if g.chance(70) { // the node lifecycle controller may be late
			add(corev1.TaintNodeUnschedulable, "", corev1.TaintEffectNoSchedule)
		}
	}
	if g.chance(8) {
		node.Status.Conditions[0].Status = pick(g, corev1.ConditionFalse, corev1.ConditionUnknown)
		key := corev1.TaintNodeNotReady
		if node.Status.Conditions[0].Status == corev1.ConditionUnknown {
			key = corev1.TaintNodeUnreachable
		}
		add(key, "", corev1.TaintEffectNoSchedule)
		add(key, "", corev1.TaintEffectNoExecute)
	}
}

var effects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule,
}

// pod returns a pod that may request every resource.
func (g *generator) pod() *corev1.Pod {
	g.serial++
	name := "pod-" + strconv.Itoa(g.serial)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.UID = types.UID(name)
	for i := range 1 + g.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, g.container("c"+strconv.Itoa(i)))
	}
	for i := range max(0, g.IntN(5)-2) {
		initial := g.container("i" + strconv.Itoa(i))
		if g.chance(50) {
			initial.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, initial)
	}
	if g.chance(10) {
		pod.Spec.Overhead = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("15m"), corev1.ResourceMemory: resource.MustParse("20Mi"),
		}
	}
	if g.chance(10) {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: g.cpu()}}
	}
	return pod
}

func (g *generator) container(name string) corev1.Container {
	requests := corev1.ResourceList{}
	if g.chance(85) {
		requests[corev1.ResourceCPU] = g.cpu()
	}
	if g.chance(85) {
		requests[corev1.ResourceMemory] = g.memory()
	}
	if g.chance(15) {
		requests[corev1.ResourceEphemeralStorage] = g.memory()
	}
	if g.chance(8) {
		requests[gpu] = *resource.NewQuantity(int64(g.IntN(4)), resource.DecimalSI)
	}
	if g.chance(5) {
		requests[hugePages] = *resource.NewQuantity(int64(2*mebi*g.IntN(64)), resource.BinarySI)
	}
	return corev1.Container{
		Name: name, Image: "example.com/image", Resources: corev1.ResourceRequirements{Requests: requests},
	}
}

func (g *generator) cpu() resource.Quantity {
	if g.chance(10) {
		return resource.MustParse(strconv.Itoa(g.IntN(2_000_000)) + "u")
	}
	return *resource.NewMilliQuantity(int64(pick(g, 0, 100, 250, 500, 1000, g.IntN(3000))), resource.DecimalSI)
}

func (g *generator) memory() resource.Quantity {
	return *resource.NewQuantity(int64(pick(g, 0, 128*mebi, 512*mebi, 2048*mebi, g.IntN(6<<30))), resource.BinarySI)
}

// live gives a scheduled pod a history: a phase, perhaps a deletion, an owner or a resize.
func (g *generator) live(pod *corev1.Pod) {
	pod.Status.Phase = pick(g, corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning,
		corev1.PodSucceeded, corev1.PodFailed)
	if g.chance(10) {
		pod.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	}
	if g.chance(20) { // a DaemonSet's
		owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}
		pod.OwnerReferences = []metav1.OwnerReference{owner}
	}
	if g.chance(15) {
		g.resize(pod)
	}
}

// resize gives a pod the status of one that was resized, or is being resized.
func (g *generator) resize(pod *corev1.Pod) {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		has := g.container(c.Name).Resources.Requests
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, AllocatedResources: pick(g, nil, has, c.Resources.Requests),
			Resources: &corev1.ResourceRequirements{Requests: has},
		})
	}
	if g.chance(30) {
		reason := pick(g, corev1.PodReasonInfeasible, corev1.PodReasonDeferred)
		pending := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}
		pod.Status.Conditions = []corev1.PodCondition{pending}
	}
	if pod.Spec.Resources != nil && g.chance(50) {
		requests := corev1.ResourceList{corev1.ResourceCPU: g.cpu()}
		pod.Status.Resources = &corev1.ResourceRequirements{Requests: requests}
	}
}

// candidate returns a pod to place. More than half of them request about as much as is free on some node: exactly that,
// one unit more, or one unit less.
func (g *generator) candidate(c *cluster, infos []fwk.NodeInfo) *corev1.Pod {
	pod := g.pod()
	if len(infos) > 0 && g.chance(60) {
		pod.Spec = g.requesting(g.exactly(pick(g, infos...)))
	}
	g.constrain(pod, c)
	return pod
}

// requesting returns the spec of a pod that requests all of this: by a container, an init container, a sidecar or
// overhead.
func (g *generator) requesting(all corev1.ResourceList) corev1.PodSpec {
	empty := corev1.Container{Name: "empty"}
	full := corev1.Container{Name: "full", Resources: corev1.ResourceRequirements{Requests: all}}
	sidecar := full
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	switch g.IntN(5) {
	case 0:
		return corev1.PodSpec{Containers: []corev1.Container{empty}, InitContainers: []corev1.Container{full}}
	case 1:
		return corev1.PodSpec{Containers: []corev1.Container{empty}, InitContainers: []corev1.Container{sidecar, empty}}
	case 2:
		return corev1.PodSpec{Containers: []corev1.Container{empty}, Overhead: all}
	}
	return corev1.PodSpec{Containers: []corev1.Container{full, empty}}
}

// exactly returns requests for about as much as is free on a node, of some of its resources.
func (g *generator) exactly(info fwk.NodeInfo) corev1.ResourceList {
	has, used := info.GetAllocatable(), info.GetRequested()
	requests := corev1.ResourceList{}
	set := func(name corev1.ResourceName, free int64, percent int) {
		if !g.chance(percent) {
			return
		}
		if free = max(0, free+int64(pick(g, 0, 0, 0, -1, 1))); name == corev1.ResourceCPU {
			requests[name] = *resource.NewMilliQuantity(free, resource.DecimalSI)
		} else {
			requests[name] = *resource.NewQuantity(free, resource.DecimalSI)
		}
	}
	set(corev1.ResourceCPU, has.GetMilliCPU()-used.GetMilliCPU(), 70)
	set(corev1.ResourceMemory, has.GetMemory()-used.GetMemory(), 70)
	set(corev1.ResourceEphemeralStorage, has.GetEphemeralStorage()-used.GetEphemeralStorage(), 20)
	set(gpu, has.GetScalarResources()[gpu]-used.GetScalarResources()[gpu], 20)
	set(hugePages, has.GetScalarResources()[hugePages]-used.GetScalarResources()[hugePages], 10)
	return requests
}

func (g *generator) constrain(pod *corev1.Pod, c *cluster) {
	if g.chance(30) {
		key := g.key()
		pod.Spec.NodeSelector = map[string]string{key: g.value(c, key)}
	}
	if g.chance(30) {
		required := &corev1.NodeSelector{}
		for range 1 + g.IntN(2) {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, g.term(c))
		}
		affinity := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: affinity}
	}
	for range max(0, g.IntN(5)-2) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, g.toleration())
	}
}

func (g *generator) term(c *cluster) corev1.NodeSelectorTerm {
	term := corev1.NodeSelectorTerm{}
	for range g.IntN(3) {
		key := g.key()
		requirement := corev1.NodeSelectorRequirement{Key: key, Operator: pick(g, operators...)}
		switch requirement.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			for range 1 + g.IntN(3) {
				requirement.Values = append(requirement.Values, g.value(c, key))
			}
		case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
			requirement.Values = []string{pick(g, "0", "8", "12", "16", "-1", "many")}
		}
		term.MatchExpressions = append(term.MatchExpressions, requirement)
	}
	if g.chance(10) {
		term.MatchFields = []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: pick(g, corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn),
			Values: []string{pick(g, c.nodes...).Name},
		}}
	}
	return term
}

var operators = []corev1.NodeSelectorOperator{
	corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
	corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt,
}

func (g *generator) key() string {
	return pick(g, "kubernetes.io/os", corev1.LabelArchStable, corev1.LabelTopologyZone, corev1.LabelTopologyZone,
		corev1.LabelHostname, "gpu", "gpu", "example.com/cores", "example.com/rack", "example.com/none")
}

// value returns a value of the label, mostly one that a node has.
func (g *generator) value(c *cluster, key string) string {
	if value, ok := pick(g, c.nodes...).Labels[key]; ok && g.chance(90) {
		return value
	}
	return pick(g, "other", "")
}

func (g *generator) toleration() corev1.Toleration {
	if g.chance(10) {
		return corev1.Toleration{Operator: corev1.TolerationOpExists}
	}
	t := corev1.Toleration{
		Key: pick(g, "dedicated", "dedicated", "spot",
			corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable),
		Operator: pick(g, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpExists,
			corev1.TolerationOpGt, corev1.TolerationOpLt),
		Effect: pick(g, "", "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute),
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
	case corev1.TolerationOpGt, corev1.TolerationOpLt:
		t.Value = pick(g, "1", "5", "10", "100", "many")
	default:
		t.Value = pick(g, "ml", "web", "5", "")
	}
	return t
}

func (c *cluster) String() string {
	return fmt.Sprintf("%d nodes and %d pods", len(c.nodes), len(c.pods))
}
