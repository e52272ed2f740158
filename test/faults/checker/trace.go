package checker

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// note adds to the trace of a proxy: what its objects in all clusters became, and when the checker saw it. A broken
// promise comes with the trace. The same text again is not news.
func (h *History) note(proxy types.UID, about, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	known := h.traces[proxy]
	if known == nil {
		known = &trace{last: map[string]string{}}
		h.traces[proxy] = known
	}
	if known.last[about] == text {
		return
	}
	known.last[about] = text
	known.lines = append(known.lines, fmt.Sprintf("%s %s: %s", h.now().Format("15:04:05.000"), about, text))
}

type trace struct {
	lines []string
	last  map[string]string // by object
}

// tracesOf returns the traces of proxies so far, one after the other.
func (h *History) tracesOf(proxies []types.UID) []string {
	var lines []string
	for _, proxy := range proxies {
		if known := h.traces[proxy]; known != nil {
			lines = append(lines, known.lines...)
		}
	}
	return lines
}

// notePod adds the state of a proxy or a delegate to the trace.
func (h *History) notePod(proxy types.UID, about string, pod *corev1.Pod) {
	text := fmt.Sprintf("%s on %q %s", pod.Status.Phase, pod.Spec.NodeName, codes(pod))
	disrupted, _ := disruption(pod)
	for _, why := range []string{pod.Status.Reason, pod.Status.Message, disrupted} {
		if why != "" {
			text += " (" + why + ")"
		}
	}
	h.note(proxy, about, "%s%s", strings.TrimSpace(text), deletion(&pod.ObjectMeta))
}

// endsWith returns the exit codes that codes returns when a pod has finished by itself. It is empty for pods that do
// not finish.
func endsWith(pod *corev1.Pod) string {
	var all []string
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if !slices.Contains(c.Args, "sleep") {
			continue
		}
		code := "0"
		for _, arg := range c.Args {
			if drawn, found := strings.CutPrefix(arg, "--exit="); found {
				code = drawn
			}
		}
		all = append(all, c.Name+"="+code)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// codes returns the exit codes of a pod's containers in words.
func codes(pod *corev1.Pod) string {
	var all []string
	for i := range pod.Status.ContainerStatuses {
		if ended := pod.Status.ContainerStatuses[i].State.Terminated; ended != nil {
			all = append(all, fmt.Sprintf("%s=%d", pod.Status.ContainerStatuses[i].Name, ended.ExitCode))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// deletion says whether an object is being deleted.
func deletion(object *metav1.ObjectMeta) string {
	if object.DeletionTimestamp == nil {
		return ""
	}
	return fmt.Sprintf(", being deleted with a grace period of %d s, held by %q",
		ptr.Deref(object.DeletionGracePeriodSeconds, 0), strings.Join(object.Finalizers, " "))
}

// ofChaperons notes the PodChaperons in a cluster.
func (h *History) ofChaperons(cluster string) cache.ResourceEventHandler {
	note := func(object any, gone bool) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		chaperon, ok := object.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		about := "PodChaperon " + chaperon.Name + " in " + cluster
		proxy := types.UID(chaperon.Labels[v1alpha1.LabelParentUID])
		if gone {
			h.note(proxy, about, "gone")
			return
		}
		asked := ""
		if grace, ok := chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod]; ok {
			asked = fmt.Sprintf(", asked to end its delegate with grace period %q", grace)
		}
		if _, ok := chaperon.Annotations[v1alpha1.AnnotationWithdrawn]; ok {
			asked += ", withdrawn"
		}
		h.note(proxy, about, "UID %s%s%s", chaperon.UID, asked, deletion(&chaperon.ObjectMeta))
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { note(object, false) },
		UpdateFunc: func(_, object any) { note(object, false) },
		DeleteFunc: func(object any) { note(object, true) },
	}
}
