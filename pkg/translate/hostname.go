package translate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// nameHost gives the delegate the host name that the proxy would have on a node. A user's own host name stays, and so
// does the node's for pods of the host network. The kubelet takes a pod's name otherwise, and the delegate's is another
// one.
//
// A name with dots is no host name that a pod's spec can have. The field hostnameOverride can hold it, from Kubernetes
// 1.35 on. Before, the delegate's own name remains. API servers do not allow that field together with
// setHostnameAsFQDN.
func nameHost(spec *corev1.PodSpec, proxy string) {
	if spec.HostNetwork || spec.Hostname != "" || spec.HostnameOverride != nil {
		return
	}
	name := kubeletHostname(proxy)
	switch {
	case len(validation.IsDNS1123Label(name)) == 0:
		spec.Hostname = name
	case !ptr.Deref(spec.SetHostnameAsFQDN, false):
		spec.HostnameOverride = &name
	}
}

// kubeletHostname returns the host name that a kubelet makes of the name of a pod.
func kubeletHostname(pod string) string {
	if len(pod) <= validation.DNS1123LabelMaxLength {
		return pod
	}
	return strings.TrimRight(pod[:validation.DNS1123LabelMaxLength], "-.")
}
