package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	virtualNodePrefix    = "admiralty-"
	hashLength           = 10
	targetIDLength       = 40
	delegateSuffixLength = 5
	grantHashLength      = 40
)

// IsVirtualNodeName says whether the name is one that virtual nodes have. Other nodes may have such names, too.
func IsVirtualNodeName(name string) bool { return strings.HasPrefix(name, virtualNodePrefix) }

// VirtualNodeName returns the name of the virtual node of a Target, or of a ClusterTarget if the key's namespace is
// empty. The name joins the parts of the key. If a part has a hyphen, so that the join is ambiguous, or if the join is
// too long, the name ends with a hash of the parts. So different targets get different names.
func VirtualNodeName(key types.NamespacedName) string {
	join := virtualNodePrefix + key.Name
	if key.Namespace != "" {
		join = virtualNodePrefix + key.Namespace + "-" + key.Name
	}
	if !strings.Contains(key.Namespace+key.Name, "-") && len(join) <= validation.DNS1123SubdomainMaxLength {
		return join
	}
	return cut(join, validation.DNS1123SubdomainMaxLength-hashLength-1) + "-" + TargetHash(key)
}

// ResourceMetricsPath returns the path of the metrics of a virtual node in the kubelet API. All virtual nodes have the
// same address, so the path has the name.
func ResourceMetricsPath(nodeName string) string {
	return "/metrics/nodes/" + nodeName + "/metrics/resource"
}

// TargetID returns 40 hexadecimal digits (160 bits) that identify a Target in label values, or a ClusterTarget if the
// key's namespace is empty. Nobody can choose the name of a target so that its ID is that of another one.
func TargetID(key types.NamespacedName) string {
	return hash("admiralty/"+key.Namespace+"/"+key.Name, targetIDLength)
}

// TargetHash returns the first ten digits of the TargetID. Names with equal hashes can be found, so the hash is good
// for names that people read, and for objects of versions that had no TargetID.
func TargetHash(key types.NamespacedName) string { return HashOfTargetID(TargetID(key)) }

// HashOfTargetID returns the TargetHash of the target with this TargetID.
func HashOfTargetID(id string) string { return cut(id, hashLength) }

// MadeFor says whether the labels of an object say that it was made for the target with this TargetID. Objects of
// versions that had no TargetID have the hash alone. In the label target-id they may have a value of the user, because
// the key was free.
func MadeFor(labels map[string]string, targetID string) bool {
	if HasTargetID(labels) {
		return labels[v1alpha1.LabelTargetID] == targetID
	}
	return labels[v1alpha1.LabelTargetHash] == HashOfTargetID(targetID)
}

// HasTargetID says whether the labels of an object have a TargetID.
func HasTargetID(labels map[string]string) bool {
	return len(labels[v1alpha1.LabelTargetID]) == targetIDLength
}

// SourceGrantName returns the name of the SourceGrant of a user in a target.
func SourceGrantName(user string) string { return "source-" + hash(user, grantHashLength) }

// DelegateName returns the name of the proxy's PodChaperon and delegate. The name depends on the proxy's name and UID
// alone, so a retry finds the PodChaperon of an earlier attempt. Proxies of the same name in several source clusters of
// one target get different names, because UIDs are unique across clusters (but for one chance in fourteen million).
//
// A proxy's name that is too long is cut. A pod's name may have more than 63 characters: the kubelet cuts the host
// name.
func DelegateName(proxy *corev1.Pod) string { return DelegateNameOf(proxy.Name, proxy.UID) }

// DelegateNameOf is DelegateName for a proxy of which only the name and the UID are known.
func DelegateNameOf(proxy string, uid types.UID) string {
	const letters = 27 // rand.SafeEncodeString has as many letters, and takes each byte modulo their number.
	sum := sha256.Sum256([]byte(uid))
	suffix := sum[:delegateSuffixLength]
	for i := range suffix {
		suffix[i] %= letters // The byte stays ASCII, and becomes one letter.
	}
	name := cut(proxy, validation.DNS1123SubdomainMaxLength-delegateSuffixLength-1)
	return name + "-" + rand.SafeEncodeString(string(suffix))
}

// LabelValue returns s if it is short enough for a label value, and otherwise its beginning with a hash of all of it.
func LabelValue(s string) string {
	if len(s) <= validation.LabelValueMaxLength {
		return s
	}
	return cut(s, validation.LabelValueMaxLength-hashLength-1) + "-" + hash(s, hashLength)
}

// cut returns at most the first n bytes of s. A shortened s does not end with a separator, so that a hyphen may follow.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.TrimRight(s[:n], "-._")
}

func hash(s string, digits int) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:digits]
}
