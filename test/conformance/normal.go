package main

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// normaliser replaces in texts what differs between any two pods.
type normaliser struct {
	patterns []pattern
}

type pattern struct {
	of *regexp.Regexp
	to string
}

// newNormaliser returns a normaliser of texts about objects of a namespace.
func newNormaliser(namespace string) *normaliser {
	return &normaliser{patterns: []pattern{{of: regexp.MustCompile(regexp.QuoteMeta(namespace)), to: "NAMESPACE"}}}
}

// knows adds the addresses, UID and node of a pod, each with a word of its own.
func (n *normaliser) knows(pod *corev1.Pod) {
	n.add(string(pod.UID), "POD-UID")
	n.add(pod.Spec.NodeName, "NODE")
	if pod.Status.PodIP != pod.Status.HostIP {
		for _, ip := range pod.Status.PodIPs {
			n.add(ip.IP, "POD-"+family(ip.IP))
		}
	}
	for _, ip := range pod.Status.HostIPs {
		n.add(ip.IP, "HOST-"+family(ip.IP))
	}
}

// family names the family of an address.
func family(ip string) string {
	if strings.Contains(ip, ":") {
		return "IPV6"
	}
	return "IP"
}

func (n *normaliser) add(from, to string) {
	if from != "" {
		n.patterns = append(n.patterns, pattern{of: regexp.MustCompile(`\b` + regexp.QuoteMeta(from) + `\b`), to: to})
	}
}

// text returns the normalised text.
func (n *normaliser) text(text string) string {
	for _, p := range slices.Concat(n.patterns, general) {
		text = p.of.ReplaceAllString(text, p.to)
	}
	return text
}

// general are the patterns of all texts.
var general = []pattern{ //nolint:gochecknoglobals // Regular expressions are compiled once.
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`containerd://[0-9a-f]{64}`), "CONTAINER-ID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HEX"},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}\b`), "kube-api-access-RANDOM"},
	{regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`), "IP"},
	{regexp.MustCompile(`\bf[de][0-9a-f]{2}(:[0-9a-f]{0,4}){2,7}\b`), "IPV6"},
	{regexp.MustCompile(`\bIP:[3-6]\d{4}\b`), "IP:PORT"},
	{regexp.MustCompile(`\d+ bytes (\S+/(token|ca\.crt))`), "BYTES $1"},
	{regexp.MustCompile(`\boptions edns0 ndots:2\b`), "options ndots:2 edns0"}, // Kubelets keep no order.
	{regexp.MustCompile(`back-off \d+m?\d*s`), "back-off TIME"},
}

// value returns a copy of the value with all its texts normalised.
func (n *normaliser) value(value any) any {
	switch v := value.(type) {
	case string:
		return n.text(v)
	case tree:
		out := tree{}
		for key, child := range v {
			out[n.text(key)] = n.value(child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = n.value(v[i])
		}
		return out
	}
	return value
}
