package podcache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTransformedPodsHaveTheSameRequests(t *testing.T) {
	options := map[string]resource.PodResourcesOptions{
		"as specified":      {},
		"resized in place":  {UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true},
		"without pod level": {UseStatusResources: true, SkipPodLevelResources: true},
		"with devices": {
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
			UseDRANodeAllocatableResourceClaimStatus: true,
		},
	}
	for name, options := range options {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			for range 2000 {
				pod := randomPod(random)
				want := resource.PodRequests(pod, options)
				got := resource.PodRequests(transform(t, pod.DeepCopy()), options)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("requests (-whole +transformed):\n%s", diff)
				}
			}
		})
	}
}

func TestRequestsOfPodsOnVirtualNodesAreDroppedButForDevices(t *testing.T) {
	debugger, named := corev1.EphemeralContainer{TargetContainerName: "c"}, corev1.EphemeralContainer{}
	debugger.Name, named.Name, debugger.Image = "debugger", "debugger", "image"
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		SchedulerName: v1alpha1.SchedulerName,
		NodeSelector:  map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
		Containers: []corev1.Container{{Name: "c", Image: "image", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")},
		}}, {Name: "d", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: apiresource.MustParse("1"), "example.com/gpu": apiresource.MustParse("2"),
			},
			Limits: corev1.ResourceList{"example.com/gpu": apiresource.MustParse("2")},
			Claims: []corev1.ResourceClaim{{Name: "lamp", Request: "desk"}},
		}}},
		EphemeralContainers: []corev1.EphemeralContainer{debugger},
		Overhead:            corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")},
	}}
	want := corev1.PodSpec{
		SchedulerName: v1alpha1.SchedulerName,
		Containers: []corev1.Container{{Name: "c"}, {Name: "d", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"example.com/gpu": apiresource.MustParse("2")},
			Claims:   []corev1.ResourceClaim{{Name: "lamp", Request: "desk"}},
		}}},
		EphemeralContainers: []corev1.EphemeralContainer{named},
	}
	for range 2 { // The second time, it is transformed already.
		if diff := cmp.Diff(want, transform(t, pod).Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	}
}

func TestAPodKeepsThatItBelongsToItsNode(t *testing.T) {
	for kind, want := range map[string]bool{"DaemonSet": true, "Node": true, "ReplicaSet": false, "": false} {
		pod := &corev1.Pod{}
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{
				{Kind: "DaemonSet", Name: "no controller"}, {Kind: kind, Name: "o", UID: "u", Controller: ptr.To(true)},
			}
		}
		var kept []metav1.OwnerReference
		if want {
			kept = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
		}
		for range 2 { // The second time, it is transformed already.
			if got := BelongsToNode(pod); got != want {
				t.Errorf("a pod of a %s belongs to its node: %t", kind, got)
			}
			if diff := cmp.Diff(kept, transform(t, pod).OwnerReferences); diff != "" {
				t.Errorf("owners of a pod of a %s (-want +got):\n%s", kind, diff)
			}
		}
	}
}

func TestTheFingerprintOfAProxyIsKept(t *testing.T) {
	proxy := &corev1.Pod{Spec: corev1.PodSpec{
		SchedulerName: v1alpha1.SchedulerName, RestartPolicy: corev1.RestartPolicyAlways,
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}
	want := Fingerprint(proxy)
	for range 2 { // The second time, it is transformed already.
		proxy = transform(t, proxy)
		if got := Fingerprint(proxy); got != want || got == "" {
			t.Errorf("fingerprint %q, want %q", got, want)
		}
	}
}

func TestTheAnnotationsThatOthersGaveADelegateAreKept(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{v1alpha1.LabelParentUID: "1"},
			Annotations: map[string]string{
				v1alpha1.AnnotationWantedAnnotations: "cni.io/*",
				v1alpha1.AnnotationApplied:           `{"annotations/cni.io/own":"a"}`,
				"cni.io/own":                         "mine", "cni.io/network": "net1", "other": "b",
			},
		},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways},
	}
	want := `{"annotations":{"cni.io/network":"net1"}}`
	if got := AddedAnnotations(pod); got != want {
		t.Errorf("of the whole delegate: got %s", got)
	}
	for range 2 { // The second time, it is transformed already.
		if pod = transform(t, pod); AddedAnnotations(pod) != want || len(pod.Annotations) != 1 {
			t.Errorf("got %v", pod.Annotations)
		}
	}
}

func TestAProxyThatWasChangedKeepsItsResources(t *testing.T) {
	limits := func(cpus string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse(cpus)},
		}
	}
	proxy := &corev1.Pod{Spec: corev1.PodSpec{
		SchedulerName: v1alpha1.SchedulerName, RestartPolicy: corev1.RestartPolicyAlways,
		NodeSelector:   map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
		InitContainers: []corev1.Container{{Name: "i", Resources: limits("2")}},
		Containers:     []corev1.Container{{Name: "c", Resources: limits("1")}},
		Resources:      ptr.To(limits("3")),
	}}
	proxy.Generation = 2
	want := proxy.Spec.DeepCopy()
	want.RestartPolicy = ""
	for range 2 {
		proxy = transform(t, proxy)
		if diff := cmp.Diff(*want, proxy.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	}
}

func TestTransformPod(t *testing.T) {
	whole := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "p", Namespace: "n", UID: "u", ResourceVersion: "7",
				Labels: map[string]string{"app": "a"}, Annotations: map[string]string{"note": "long"},
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs"}},
			},
			Spec: corev1.PodSpec{
				NodeName:   "node",
				Containers: []corev1.Container{{Name: "c", Image: "image", Env: []corev1.EnvVar{{Name: "A"}}}},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}},
			},
		}
		change(pod)
		return pod
	}
	reduced := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "u", ResourceVersion: "7"},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}},
	}
	proxy := func(p *corev1.Pod) {
		p.Spec.SchedulerName = v1alpha1.SchedulerName
		p.Annotations[v1alpha1.AnnotationElect], p.Annotations[v1alpha1.AnnotationOriginalConstraints] = "", "{}"
		p.Finalizers = []string{"example.com/held"}
		p.DeletionGracePeriodSeconds, p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3), ptr.To[int64](30)
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}}}
	}
	scratch := func(p *corev1.Pod) {
		p.Spec.SchedulerName = v1alpha1.SchedulerName
		p.Spec.Volumes = []corev1.Volume{
			{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
	}
	delegate := func(p *corev1.Pod) {
		p.Labels[v1alpha1.LabelParentUID], p.Labels[v1alpha1.LabelParentClusterID] = "parent", "source"
	}
	handMade := func(p *corev1.Pod) {
		p.OwnerReferences = append(p.OwnerReferences,
			metav1.OwnerReference{Kind: "PodChaperon", Name: "p", Controller: ptr.To(true)})
	}
	reducedTo := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := reduced.DeepCopy()
		pod.Labels, pod.Annotations = map[string]string{}, map[string]string{}
		change(pod)
		pod.Status.PodIP = "10.0.0.1"
		for i := range pod.Spec.Volumes {
			pod.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{}
		}
		return pod
	}
	for name, test := range map[string]struct{ pod, want *corev1.Pod }{
		"a pod that is not ours keeps only its requests":        {whole(func(*corev1.Pod) {}), reduced},
		"a proxy keeps its status and the fields about its end": {whole(proxy), reducedTo(proxy)},
		"a proxy loses volumes on which no driver reports": {
			whole(scratch), reducedTo(func(p *corev1.Pod) { scratch(p); p.Spec.Volumes = nil }),
		},
		"a delegate keeps its status and its parent's labels":           {whole(delegate), reducedTo(delegate)},
		"the pod of a hand-made PodChaperon keeps its status and owner": {whole(handMade), reducedTo(handMade)},
	} {
		t.Run(name, func(t *testing.T) {
			test.pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
			compare := func(got *corev1.Pod) string {
				got = got.DeepCopy()
				delete(got.Annotations, annotationFingerprint) // It is tested by itself.
				return cmp.Diff(test.want, got, cmpopts.EquateEmpty())
			}
			got := transform(t, test.pod)
			if diff := compare(got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := compare(transform(t, got)); diff != "" {
				t.Errorf("transformed twice (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransformNode(t *testing.T) {
	node := func(provider string) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: "n", Labels: map[string]string{v1alpha1.LabelNodeProvider: provider},
				Annotations:   map[string]string{"note": "long"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
			},
			Spec: corev1.NodeSpec{
				Unschedulable: true, PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"},
				Taints: []corev1.Taint{{Key: "k"}},
			},
			Status: corev1.NodeStatus{
				Capacity:    corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("2")},
				Allocatable: corev1.ResourceList{corev1.ResourceCPU: apiresource.MustParse("1")},
				Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Addresses:   []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
				Images:      []corev1.ContainerImage{{Names: []string{"image"}}},

				DeclaredFeatures: []string{"A", "B"},
			},
		}
	}
	reduced := node("else")
	reduced.ManagedFields, reduced.Annotations, reduced.Spec.PodCIDR, reduced.Status.Images = nil, nil, "", nil
	virtual := node(v1alpha1.LabelNodeProviderValue)
	virtual.ManagedFields = nil
	for name, test := range map[string]struct{ node, want *corev1.Node }{
		"an ordinary node loses what nobody reads":          {node("else"), reduced},
		"a virtual node loses only managedFields":           {node(v1alpha1.LabelNodeProviderValue), virtual},
		"a node that was transformed before stays the same": {reduced.DeepCopy(), reduced},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := TransformNode(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(any(test.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func transform(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	got, err := Transform(pod)
	if err != nil {
		t.Fatal(err)
	}
	return got.(*corev1.Pod)
}

// randomPod makes pods in which every field that PodRequests reads is set or absent by chance.
func randomPod(r *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{Status: corev1.PodStatus{AllocatedResources: randomList(r)}}
	if r.IntN(2) == 0 {
		pod.Spec.Overhead = randomList(r)
	}
	pod.Spec.Resources = randomRequirements(r)
	pod.Status.Resources = randomRequirements(r)
	for i := range 1 + r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, randomContainer(r, fmt.Sprintf("c%d", i)))
		if r.IntN(3) > 0 {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, randomStatus(r, fmt.Sprintf("c%d", i)))
		}
	}
	for i := range r.IntN(3) {
		container := randomContainer(r, fmt.Sprintf("i%d", i))
		if r.IntN(2) == 0 {
			container.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, randomStatus(r, container.Name))
	}
	switch r.IntN(4) {
	case 0:
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady}, {Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible},
		}
	case 1:
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred}}
	}
	if r.IntN(3) == 0 {
		pod.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
			ResourceClaimName: "claim",
			Overhead: []corev1.NodeAllocatableOverheadResources{
				{Name: corev1.ResourceCPU, PerPod: ptr.To(apiresource.MustParse("3m"))},
			},
		}}
	}
	return pod
}

func randomContainer(r *rand.Rand, name string) corev1.Container {
	container := corev1.Container{Name: name, Image: "image"}
	if resources := randomRequirements(r); resources != nil {
		container.Resources = *resources
	}
	return container
}

func randomStatus(r *rand.Rand, name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: name, Image: "image", AllocatedResources: randomList(r), Resources: randomRequirements(r),
	}
}

func randomRequirements(r *rand.Rand) *corev1.ResourceRequirements {
	if r.IntN(2) == 0 {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: randomList(r), Limits: randomList(r)}
}

func randomList(r *rand.Rand) corev1.ResourceList {
	if r.IntN(3) == 0 {
		return nil
	}
	list := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, "hugepages-2Mi", "example.com/gpu",
	} {
		if r.IntN(2) == 0 {
			list[name] = *apiresource.NewQuantity(r.Int64N(100), apiresource.DecimalSI)
		}
	}
	return list
}
