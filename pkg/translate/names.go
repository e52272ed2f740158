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
)

// VirtualNodeName returns the name of the virtual node of a Target, or, where the key's namespace is empty, of a
// ClusterTarget. Different targets get different names: where the parts hold a hyphen, which makes their join ambiguous, or
// the join is too long, a hash of the parts is added.
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

// TargetHash returns ten hexadecimal digits that stand for a Target, or for a ClusterTarget where the key's namespace is
// empty, in label values.
func TargetHash(key types.NamespacedName) string {
	return hash("admiralty/"+key.Namespace+"/"+key.Name, hashLength)
}

// DelegateName returns the name of the proxy's PodChaperon and delegate. It depends on the proxy's name and UID alone, so
// that a retry finds what an earlier attempt created; UIDs are unique beyond the cluster, so that proxies of the same
// name in several source clusters of one target get different names (but for one chance in fourteen million).
//
// The name of a proxy that is too long is cut. A name longer than 63 characters is fine for a pod: the kubelet cuts the
// host name.
func DelegateName(proxy *corev1.Pod) string {
	const letters = 27 // of rand.SafeEncodeString, which takes each byte modulo this
	sum := sha256.Sum256([]byte(proxy.UID))
	suffix := sum[:delegateSuffixLength]
	for i := range suffix {
		suffix[i] %= letters // keeps the bytes ASCII, one letter each
	}
	name := cut(proxy.Name, validation.DNS1123SubdomainMaxLength-delegateSuffixLength-1)
	return name + "-" + rand.SafeEncodeString(string(suffix))
}

// labelValue returns s where it is short enough for a label value, and otherwise its beginning and a hash of it.
func labelValue(s string) string {
	if len(s) <= validation.LabelValueMaxLength {
		return s
	}
	return cut(s, validation.LabelValueMaxLength-hashLength-1) + "-" + hash(s, hashLength)
}

// cut returns at most the first n bytes of s, without separators at the end, so that a hyphen may follow.
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
