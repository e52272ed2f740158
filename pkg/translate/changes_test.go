package translate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/fieldpath"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func cpu(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
}

// initialised gives a pod an init container.
func initialised(spec *corev1.PodSpec) {
	spec.InitContainers = []corev1.Container{{Name: "init", Image: "whoami"}}
}

func TestTheFingerprintIsOfWhatMayChange(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*corev1.Pod)
		differs bool
	}{
		"a label":       {func(p *corev1.Pod) { p.Labels["new"] = "" }, true},
		"an annotation": {func(p *corev1.Pod) { p.Annotations["new"] = "" }, true},
		"which labels to keep": {func(p *corev1.Pod) {
			p.Annotations[v1alpha1.AnnotationNoPrefixLabelRegexp] = "."
		}, true},
		"an image":  {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "new" }, true},
		"resources": {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("1") }, true},
		"the image of an init container": {
			func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "new" }, true,
		},
		"the resources of an init container": {
			func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources = cpu("1") }, true,
		},
		"the resources of the pod": {func(p *corev1.Pod) { p.Spec.Resources = ptr.To(cpu("1")) }, true},
		"a toleration": {func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, gpuToleration)
		}, true},
		"a deadline": {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(1)) }, true},
		"a debugger": {func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}}
		}, true},
		"the node":           {func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c2" }, false},
		"the status":         {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"that it is fenced":  {func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationFencedAfter] = "60" }, false},
		"what kubectl noted": {func(p *corev1.Pod) { p.Annotations[corev1.LastAppliedConfigAnnotation] = "{}" }, false},
		"the zone":           {func(p *corev1.Pod) { p.Labels[corev1.LabelTopologyZone] = "a" }, false},
		"the version":        {func(p *corev1.Pod) { p.ResourceVersion = "2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := mustProxy(t, elected(nil, initialised))
			before := translate.Fingerprint(proxy)
			test.change(proxy)
			if differs := translate.Fingerprint(proxy) != before; differs != test.differs {
				t.Errorf("differs: %t", differs)
			}
		})
	}
}

// Since Kubernetes 1.35, a pod has the zone and the region of its node as labels.
func TestADelegateHasTheZoneOfItsOwnNode(t *testing.T) {
	proxy := mustProxy(t, elected(nil, nil))
	to := translate.Destination{KeepLabels: true}
	want, err := translate.DelegateLabels(proxy, translate.Source{}, to)
	if err != nil {
		t.Fatal(err)
	}
	proxy.Labels[corev1.LabelTopologyZone], proxy.Labels[corev1.LabelTopologyRegion] = "a", "b"
	got, err := translate.DelegateLabels(proxy, translate.Source{}, to)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAFileOfAllLabelsHasNotThoseOfTheVirtualNode(t *testing.T) {
	proxy := mustProxy(t, labelled(nil, "metadata.labels"))
	before := mustChaperon(t, proxy)
	proxy.Labels[corev1.LabelTopologyZone] = "zone-of-the-virtual-node"
	after, err := translate.ChangedChaperon(proxy, source(), destination(), before)
	if err != nil {
		t.Fatal(err)
	}
	if got := after.Annotations[v1alpha1.AnnotationParentLabels]; strings.Contains(got, "zone") || got == "" {
		t.Errorf("containers see the labels %q", got)
	}
}

func TestRevisionOf(t *testing.T) {
	for value, want := range map[string]translate.Revision{
		"":                       {},
		"3-abc":                  {Number: 3, Fingerprint: "abc"},
		"-1-abc":                 {},
		"x-abc":                  {},
		"7":                      {Number: 7},
		strings.Repeat("1", 100): {},
	} {
		pod := &corev1.Pod{}
		pod.Annotations = map[string]string{v1alpha1.AnnotationRevision: value}
		if got := translate.RevisionOf(pod); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// change returns the PodChaperon of a proxy, as it was created, and as it is after a change of the proxy.
func change(t *testing.T, change func(*corev1.Pod)) (before, after *v1alpha1.PodChaperon) {
	t.Helper()
	return changeOf(t, nil, change)
}

// changeOf does the same for a proxy with another spec.
func changeOf(
	t *testing.T, spec func(*corev1.PodSpec), change func(*corev1.Pod),
) (before, after *v1alpha1.PodChaperon) {
	t.Helper()
	proxy := mustProxy(t, elected(map[string]string{"old": "1"}, spec))
	proxy.Labels["old"] = "1"
	before = mustChaperon(t, proxy)
	change(proxy)
	after, err := translate.ChangedChaperon(proxy, source(), destination(), before)
	if err != nil {
		t.Fatal(err)
	}
	return before, after
}

func TestAChangedPodChaperonKeepsWhatIsOurs(t *testing.T) {
	before, after := change(t, func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "new"}
		delete(p.Annotations, "old")
		p.Spec.NodeName, p.UID = "admiralty-c2", "another"
		p.Spec.ServiceAccountName = "admin"
	})
	want := before.DeepCopy()
	delete(want.Labels, "multicluster.admiralty.io/old")
	want.Labels["multicluster.admiralty.io/app"] = "new"
	delete(want.Annotations, "old")
	want.Annotations[v1alpha1.AnnotationRevision] = "1-" + translate.RevisionOf(after).Fingerprint
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("unexpected PodChaperon (-want +got):\n%s", diff)
	}
}

func TestOnlyTheFingerprintOfAnEarlierPodChaperonChanges(t *testing.T) {
	proxy := mustProxy(t, elected(nil, nil))
	earlier := mustChaperon(t, proxy)
	want := earlier.DeepCopy()
	delete(earlier.Annotations, v1alpha1.AnnotationRevision)
	after, err := translate.ChangedChaperon(proxy, source(), destination(), earlier)
	if diff := cmp.Diff(want, after); diff != "" || err != nil {
		t.Errorf("unexpected PodChaperon (-want +got), error %v:\n%s", err, diff)
	}
}

func TestWhatTheTargetGaveADelegateStays(t *testing.T) {
	before, after := change(t, func(p *corev1.Pod) {
		p.Labels["new"], p.Labels["theirs"] = "1", "1"
		delete(p.Labels, "old")
	})
	delegate := translate.Delegate(before)
	delegate.Spec.Containers[0].Image = "mirror/whoami"
	delegate.Labels["multicluster.admiralty.io/theirs"], delegate.Labels["quarantine"] = "2", "1"
	changes := translate.DelegateChanges(delegate, after)
	if changes.Spec != nil || changes.Resized != nil || changes.Debugged != nil {
		t.Errorf("the spec changes: %+v", changes)
	}
	want := after.DeepCopy().Labels
	want["multicluster.admiralty.io/theirs"], want["quarantine"] = "2", "1"
	if diff := cmp.Diff(want, changes.Metadata.Labels); diff != "" {
		t.Errorf("unexpected labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"labels/multicluster.admiralty.io/theirs"}, changes.Kept); diff != "" {
		t.Errorf("unexpected values kept (-want +got):\n%s", diff)
	}
}

func TestADelegateWithoutARecordGetsEverything(t *testing.T) {
	before, after := change(t, func(p *corev1.Pod) {
		delete(p.Labels, "old")
		p.Spec.Containers[0].Image = "new"
	})
	delegate := translate.Delegate(before)
	delete(delegate.Annotations, v1alpha1.AnnotationApplied)
	delegate.Labels["theirs"] = "1"
	changes := translate.DelegateChanges(delegate, after)
	if changes.Spec == nil || changes.Spec.Spec.Containers[0].Image != "new" {
		t.Errorf("spec %+v", changes.Spec)
	}
	want := after.DeepCopy().Labels
	want["theirs"] = "1"
	if diff := cmp.Diff(want, changes.Metadata.Labels); diff != "" {
		t.Errorf("unexpected labels (-want +got):\n%s", diff)
	}
}

func TestARefusedPartIsTriedAgain(t *testing.T) {
	for name, resize := range map[string]func(*corev1.Pod){
		"of a container":       func(p *corev1.Pod) { p.Spec.Containers[0].Resources = cpu("2") },
		"of an init container": func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources = cpu("2") },
		"of the pod":           func(p *corev1.Pod) { p.Spec.Resources = ptr.To(cpu("2")) },
	} {
		t.Run(name, func(t *testing.T) {
			before, after := changeOf(t, initialised, func(p *corev1.Pod) {
				p.Labels["new"] = "1"
				resize(p)
			})
			delegate := translate.Delegate(before)
			changes := translate.DelegateChanges(delegate, after)
			changes.WithoutResize()
			want := delegate.Annotations[v1alpha1.AnnotationRevision]
			if got := changes.Metadata.Annotations[v1alpha1.AnnotationRevision]; got != want || want == "" {
				t.Errorf("revision %q, want %q, that of the delegate", got, want)
			}
			resize(delegate)
			expectSpec(t, "resize", delegate, translate.DelegateChanges(changes.Metadata, after).Resized)
		})
	}
}

// expectSpec compares the spec of a part of the changes with that of a pod, which is nil if nothing changes.
func expectSpec(t *testing.T, part string, want, got *corev1.Pod) {
	t.Helper()
	switch {
	case want == nil && got != nil:
		t.Errorf("%s: %+v, want none", part, got.Spec)
	case want != nil && got == nil:
		t.Errorf("%s: none", part)
	case want != nil:
		if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
			t.Errorf("%s (-want +got):\n%s", part, diff)
		}
	}
}

func TestInitContainersAndTheResourcesOfThePodChange(t *testing.T) {
	memory := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	image := func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "new" }
	ofInit := func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources = cpu("2") }
	ofPod := func(p *corev1.Pod) {
		if p.Spec.Resources == nil {
			p.Spec.Resources = &corev1.ResourceRequirements{}
		}
		p.Spec.Resources.Requests = cpu("2").Requests
	}
	limited := func(p *corev1.Pod) { p.Spec.Resources.Limits = memory }
	all := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	for name, test := range map[string]struct {
		ofPod         *corev1.ResourceRequirements // before
		change        func(*corev1.Pod)
		live          func(*corev1.Pod) // what others in the target did
		resized, spec func(*corev1.Pod)
	}{
		"the image of an init container":                      {change: image, spec: image},
		"an image that the target has already":                {change: image, live: image},
		"the resources of an init container":                  {change: ofInit, resized: ofInit},
		"resources of an init container that the target gave": {change: ofInit, live: ofInit},
		"both of an init container": {
			change: all(image, ofInit), resized: ofInit, spec: image,
		},
		"resources of a pod that had none":        {change: ofPod, resized: ofPod},
		"other resources of a pod":                {ofPod: ptr.To(cpu("1")), change: ofPod, resized: ofPod},
		"resources of a pod that the target gave": {change: ofPod, live: ofPod},
		"resources of a pod to which the target gave others, too": {
			ofPod: ptr.To(cpu("1")), change: ofPod, live: limited, resized: ofPod,
		},
		"resources of a pod that only the target changed": {
			ofPod: ptr.To(cpu("1")), change: image, live: ofPod, spec: image,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := changeOf(t, func(spec *corev1.PodSpec) {
				initialised(spec)
				spec.Resources = test.ofPod
			}, test.change)
			if got := translate.RevisionOf(after).Number; got != 1 {
				t.Errorf("it is change %d", got)
			}
			delegate := translate.Delegate(before)
			if test.live != nil {
				test.live(delegate)
			}
			changes := translate.DelegateChanges(delegate, after)
			for part, expected := range map[string]struct {
				change func(*corev1.Pod)
				got    *corev1.Pod
			}{"resize": {test.resized, changes.Resized}, "spec": {test.spec, changes.Spec}} {
				var want *corev1.Pod
				if expected.change != nil {
					want = delegate.DeepCopy()
					expected.change(want)
				}
				expectSpec(t, part, want, expected.got)
			}
		})
	}
}

// debug gives a proxy a debugger that shows the label app, and another value of this label.
func debug(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = value
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Env: []corev1.EnvVar{{
				Name: "APP", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels['app']"},
				},
			}}},
		}}
	}
}

func TestTheAnnotationsThatADebuggerShowsComeFirst(t *testing.T) {
	before, after := change(t, debug("a"))
	delegate := translate.Delegate(before)
	carried := translate.DelegateChanges(delegate, after).Carried()
	if carried == nil {
		t.Fatal("the delegate lacks no annotation")
	}
	path := after.Spec.EphemeralContainers[0].Env[0].ValueFrom.FieldRef.FieldPath
	if value, err := fieldpath.ExtractFieldPathAsString(carried, path); err != nil || value != "a" {
		t.Errorf("the debugger shows %q, error %v", value, err)
	}
	want := delegate.DeepCopy()
	for key := range carried.Annotations {
		if strings.HasPrefix(key, v1alpha1.AnnotationParentLabelPrefix) {
			want.Annotations[key] = "a"
		}
	}
	if diff := cmp.Diff(want, carried); diff != "" {
		t.Errorf("more than these annotations differs (-want +got):\n%s", diff)
	}

	_, later := change(t, debug("b")) // The first change was interrupted.
	changes := translate.DelegateChanges(carried, later)
	again := changes.Carried()
	if again == nil {
		t.Fatal("the delegate lacks no annotation")
	}
	if value, err := fieldpath.ExtractFieldPathAsString(again, path); err != nil || value != "b" {
		t.Errorf("the debugger shows %q, error %v", value, err)
	}
	if len(changes.Kept) > 0 {
		t.Errorf("our own values count as those of the target: %v", changes.Kept)
	}
	if more := translate.DelegateChanges(again, later).Carried(); more != nil {
		t.Errorf("the delegate has all annotations: %v", more.Annotations)
	}
}
