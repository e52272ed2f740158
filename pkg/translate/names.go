package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	hashLength           = 10
	delegateSuffixLength = 5
	grantHashLength      = 40
)

// VirtualNodeName returns the name of the virtual node of a Target, or of a ClusterTarget if the key's namespace is
// empty. The name joins the parts of the key. If a part has a hyphen, so that the join is ambiguous, or if the join is
// too long, the name ends with a hash of the parts. So different targets get different names.
func VirtualNodeName(key types.NamespacedName) string {
	join := "admiralty-" + key.Name
	if key.Namespace != "" {
		join = "admiralty-" + key.Namespace + "-" + key.Name
	}
	if !strings.Contains(key.Namespace+key.Name, "-") && len(join) <= validation.DNS1123SubdomainMaxLength {
		return join
	}
	return cut(join, validation.DNS1123SubdomainMaxLength-hashLength-1) + "-" + TargetHash(key)
}

// TargetHash returns ten hexadecimal digits that identify a Target in label values, or a ClusterTarget if the key's
// namespace is empty.
func TargetHash(key types.NamespacedName) string {
	return hash("admiralty/"+key.Namespace+"/"+key.Name, hashLength)
}

// SourceGrantName returns the name of the SourceGrant of a user in a target.
func SourceGrantName(user string) string { return "source-" + hash(user, grantHashLength) }

// DelegateName returns the name of the proxy's PodChaperon and delegate. The name depends on the proxy's name and UID
// alone, so a retry finds the PodChaperon of an earlier attempt. Proxies of the same name in several source clusters of
// one target get different names, because UIDs are unique across clusters (but for one chance in fourteen million).
//
// A proxy's name that is too long is cut. A pod's name may have more than 63 characters: the kubelet cuts the host
// name.
func DelegateName(proxy *corev1.Pod) string {
	const letters = 27 // rand.SafeEncodeString has as many letters, and takes each byte modulo their number.
	sum := sha256.Sum256([]byte(proxy.UID))
	suffix := sum[:delegateSuffixLength]
	for i := range suffix {
		suffix[i] %= letters // The byte stays ASCII, and becomes one letter.
	}
	name := cut(proxy.Name, validation.DNS1123SubdomainMaxLength-delegateSuffixLength-1)
	return name + "-" + rand.SafeEncodeString(string(suffix))
}

// labelValue returns s if it is short enough for a label value, and otherwise its beginning with a hash of all of it.
func labelValue(s string) string {
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
