package translate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// IsNodeLabel says whether a virtual node may have a label of the target's nodes. It returns false for labels that make
// a node look like one machine to DaemonSets, or like another target's node. It also returns false for labels of
// node-restriction.kubernetes.io: kubelets cannot set them, so users take them for words of their administrators.
func IsNodeLabel(key string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable,
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return false
	}
	domain, _, _ := strings.Cut(key, "/")
	return domain != "node-role.kubernetes.io" && !strings.HasPrefix(key, ownPrefix) &&
		domain != corev1.LabelNamespaceNodeRestriction &&
		!strings.HasSuffix(domain, "."+corev1.LabelNamespaceNodeRestriction)
}
