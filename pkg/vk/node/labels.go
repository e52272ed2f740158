package node

import (
	"maps"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Labels returns the labels of a target's virtual node: the labels of every virtual node, which take
// precedence, and the labels of the target's summary. It leaves out labels of the summary that match excluded (against
// key=value; nil matches none), that allowed refuses (nil refuses none), and that no virtual node may have (see
// translate.IsNodeLabel).
//
// The value of kubernetes.io/hostname is the node's own name, because default spreading compares nodes by this label.
func Labels(
	key types.NamespacedName,
	summaryLabels map[string]string,
	excluded *regexp.Regexp,
	allowed func(label string) bool,
) map[string]string {
	labels := map[string]string{}
	for k, v := range summaryLabels {
		if !translate.IsNodeLabel(k) || allowed != nil && !allowed(k) ||
			excluded != nil && excluded.MatchString(k+"="+v) {
			continue
		}
		labels[k] = v
	}
	maps.Copy(labels, map[string]string{
		v1alpha1.LabelNodeType:           v1alpha1.LabelNodeTypeValue,
		v1alpha1.LabelNodeProvider:       v1alpha1.LabelNodeProviderValue,
		v1alpha1.LabelNodeRole:           v1alpha1.LabelNodeRoleValue,
		corev1.LabelNodeExcludeBalancers: "true",
		corev1.LabelHostname:             translate.LabelValue(translate.VirtualNodeName(key)),
	})
	if key.Namespace == "" {
		labels[v1alpha1.LabelClusterTargetName] = translate.LabelValue(key.Name)
		return labels
	}
	labels[v1alpha1.LabelTargetNamespace] = translate.LabelValue(key.Namespace)
	labels[v1alpha1.LabelTargetName] = translate.LabelValue(key.Name)
	return labels
}

// Taint returns the taint of virtual nodes. It keeps all pods but proxies away.
func Taint() corev1.Taint {
	return corev1.Taint{
		Key:    v1alpha1.LabelNodeProvider,
		Value:  v1alpha1.LabelNodeProviderValue,
		Effect: corev1.TaintEffectNoSchedule,
	}
}
