package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Changes are what a delegate lacks of its PodChaperon. Each pod is the delegate as it should be in one respect, or nil
// if it is so already. Subresources of the delegate take the first two.
type Changes struct {
	// Resized has the resources of the PodChaperon.
	Resized *corev1.Pod
	// Debugged has the ephemeral containers of the PodChaperon.
	Debugged *corev1.Pod
	// Spec has its images, tolerations and times, and Metadata's metadata.
	Spec *corev1.Pod
	// Metadata has its labels and annotations, the revision and the record.
	Metadata *corev1.Pod
	// Kept are labels and annotations that the PodChaperon wants, and that the target gave other values before.
	Kept []string

	live     *corev1.Pod
	template *corev1.Pod
	was, is  record
}

// DelegateChanges returns how to change a delegate, as the API server has it, so that it is as its PodChaperon says.
// The record in the delegate says what the target's manager has applied before. Only what differs from the record
// changes, so whatever others in the target gave the delegate stays: labels, annotations, images from a mirror.
//
// A delegate of an earlier version has no record. It gets all values of the PodChaperon, and loses those labels only
// that have our prefix.
func DelegateChanges(live *corev1.Pod, chaperon *v1alpha1.PodChaperon) *Changes {
	c := &Changes{live: live, template: delegateOf(chaperon), was: recorded(live)}
	c.is = recordOf(c.template)
	c.resize()
	c.debug()
	c.changeSpec()
	c.changeMetadata()
	return c
}

// changed says whether the value with this key in the record is another one than before.
func (c *Changes) changed(key string) bool { return c.was == nil || c.was[key] != c.is[key] }

func (c *Changes) resize() {
	pod := c.live.DeepCopy()
	resized := false
	for _, pair := range [][2][]corev1.Container{
		{pod.Spec.InitContainers, c.template.Spec.InitContainers}, {pod.Spec.Containers, c.template.Spec.Containers},
	} {
		for i := range pair[0] {
			wished := containerOf(pair[1], pair[0][i].Name)
			if wished != nil && c.changed(partResources+wished.Name) {
				resized = overlay(&pair[0][i].Resources, &wished.Resources) || resized
			}
		}
	}
	if wished := c.template.Spec.Resources; wished != nil && c.changed(partPodResources) {
		if pod.Spec.Resources == nil {
			pod.Spec.Resources = &corev1.ResourceRequirements{}
		}
		resized = overlay(pod.Spec.Resources, wished) || resized
	}
	if resized {
		c.Resized = pod
	}
}

// overlay sets the amounts of the resources that can be resized, and says whether one differs. Amounts that only the
// target gave stay.
func overlay(resources, wished *corev1.ResourceRequirements) bool {
	requests := overlayList(&resources.Requests, wished.Requests)
	return overlayList(&resources.Limits, wished.Limits) || requests
}

func overlayList(list *corev1.ResourceList, wished corev1.ResourceList) bool {
	differs := false
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		amount, ok := wished[name]
		if now, has := (*list)[name]; !ok || has && now.Cmp(amount) == 0 {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name], differs = amount.DeepCopy(), true
	}
	return differs
}

func (c *Changes) debug() {
	pod := c.live.DeepCopy()
	addEphemeral(&pod.Spec, withOwnTokens(c.template.Spec.EphemeralContainers, &c.live.Spec))
	if len(pod.Spec.EphemeralContainers) > len(c.live.Spec.EphemeralContainers) {
		c.Debugged = pod
	}
}

// Carried returns the delegate with the annotations that carry values of the proxy, as the PodChaperon has them. It is
// nil if the delegate has them already. The kubelet reads them when it starts a container. So the delegate must have
// them before it gets the containers of Debugged, which start once. The revision and the record stay as they are.
func (c *Changes) Carried() *corev1.Pod {
	pod := c.live.DeepCopy()
	differs := false
	for key, value := range c.template.Annotations {
		if has, ok := c.live.Annotations[key]; carries(key) && (!ok || has != value) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
			differs = true
		}
	}
	if !differs {
		return nil
	}
	return pod
}

func (c *Changes) changeSpec() {
	pod := c.live.DeepCopy()
	spec, wished := &pod.Spec, &c.template.Spec
	differs := c.changeImages(spec.InitContainers, wished.InitContainers)
	differs = c.changeImages(spec.Containers, wished.Containers) || differs
	if c.changed(partTolerations) {
		before := len(spec.Tolerations)
		spec.Tolerations = withAdded(spec.Tolerations, wished.Tolerations, nil)
		differs = differs || len(spec.Tolerations) > before
	}
	if c.changed(partDeadline) && wished.ActiveDeadlineSeconds != nil {
		differs = differs || !same(spec.ActiveDeadlineSeconds, wished.ActiveDeadlineSeconds)
		spec.ActiveDeadlineSeconds = wished.ActiveDeadlineSeconds
	}
	if c.changed(partGrace) && wished.TerminationGracePeriodSeconds != nil {
		differs = differs || !same(spec.TerminationGracePeriodSeconds, wished.TerminationGracePeriodSeconds)
		spec.TerminationGracePeriodSeconds = wished.TerminationGracePeriodSeconds
	}
	if differs {
		c.Spec = pod
	}
}

func same(a, b *int64) bool { return a != nil && b != nil && *a == *b }

func (c *Changes) changeImages(containers, wished []corev1.Container) bool {
	differs := false
	for i := range containers {
		w := containerOf(wished, containers[i].Name)
		if w == nil || !c.changed(partImage+w.Name) || containers[i].Image == w.Image {
			continue
		}
		containers[i].Image, differs = w.Image, true
	}
	return differs
}

func (c *Changes) changeMetadata() {
	pod := c.live.DeepCopy()
	pod.Labels = c.merge(partLabel, c.live.Labels, c.template.Labels, reserved)
	pod.Annotations = c.merge(partAnnotation, c.live.Annotations, c.template.Annotations, isOwnAnnotation)
	c.Metadata = pod
	slices.Sort(c.Kept)
	c.note()
}

// note writes the revision and the record.
func (c *Changes) note() {
	recordIn(c.Metadata, c.is)
	c.Metadata.Annotations[v1alpha1.AnnotationRevision] = RevisionOf(c.template).String()
}

// merge returns the delegate's labels or annotations with those of the PodChaperon. Our own stay as they are. The
// target gives the delegate no values of the proxy. If the record lacks one, a change was interrupted after Carried.
func (c *Changes) merge(part string, live, wished map[string]string, own func(string) bool) map[string]string {
	merged := map[string]string{}
	for key, value := range live {
		_, wanted := wished[key]
		if wanted || own(key) || !c.gaveAway(part, key) {
			merged[key] = value
		}
	}
	for key, value := range wished {
		if own(key) || !c.changed(part+key) {
			continue
		}
		theirs, has := live[key]
		if _, gave := c.was[part+key]; c.was != nil && !gave && has && theirs != value && !carries(key) {
			c.Kept = append(c.Kept, part+key)
			delete(c.is, part+key)
			continue
		}
		merged[key] = value
	}
	return merged
}

// gaveAway says whether a label or annotation, which the PodChaperon does not have, came from it before.
func (c *Changes) gaveAway(part, key string) bool {
	if c.was == nil {
		return part == partLabel && strings.HasPrefix(key, ownPrefix)
	}
	_, gave := c.was[part+key]
	return gave
}

// Rest has all that needs no subresource: what Spec and Metadata have.
func (c *Changes) Rest() *corev1.Pod {
	pod := c.Metadata.DeepCopy()
	if c.Spec != nil {
		c.Spec.Spec.DeepCopyInto(&pod.Spec)
	}
	return pod
}

// WithoutResize notes that the target refuses this part of the changes, as WithoutDebug and WithoutSpec do. Metadata
// then says that the delegate has the revision that it had, and the record says what it had before.
func (c *Changes) WithoutResize() { c.undo(partResources, partPodResources) }

// WithoutDebug is described with WithoutResize.
func (c *Changes) WithoutDebug() { c.undo(partEphemeral) }

// WithoutSpec is described with WithoutResize.
func (c *Changes) WithoutSpec() { c.undo(partImage, partTolerations, partDeadline, partGrace) }

// WithoutKept notes that the target's values stay: the delegate lacks those of the PodChaperon.
func (c *Changes) WithoutKept() { c.undo() }

func (c *Changes) undo(beginnings ...string) {
	for key := range c.is {
		if !slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(key, b) }) {
			continue
		}
		if was, ok := c.was[key]; ok {
			c.is[key] = was
			continue
		}
		delete(c.is, key)
	}
	recordIn(c.Metadata, c.is)
	if was, ok := c.live.Annotations[v1alpha1.AnnotationRevision]; ok {
		c.Metadata.Annotations[v1alpha1.AnnotationRevision] = was
		return
	}
	delete(c.Metadata.Annotations, v1alpha1.AnnotationRevision)
}
