package translate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestDelegatesHaveTheHostNameOfTheProxy(t *testing.T) {
	long := strings.Repeat("x", 62)
	for name, tc := range map[string]struct {
		pod            string
		change         func(*corev1.PodSpec)
		hostname, over string
	}{
		"the proxy's name":                {pod: "db-0", hostname: "db-0"},
		"a long name is cut as on a node": {pod: long + "-abcde", hostname: long},
		"a name with dots":                {pod: "db.eu", over: "db.eu"},
		"a long name with dots": {
			pod: "a." + long[:60] + ".b", over: "a." + long[:60],
		},
		"the user's own": {
			pod: "db-0", change: func(s *corev1.PodSpec) { s.Hostname = "mine" }, hostname: "mine",
		},
		"the user's override": {
			pod: "db-0", change: func(s *corev1.PodSpec) { s.HostnameOverride = ptr.To("mine.example") },
			over: "mine.example",
		},
		"none on the host's network": {pod: "db-0", change: func(s *corev1.PodSpec) { s.HostNetwork = true }},
		"a subdomain": {
			pod: "db-0", change: func(s *corev1.PodSpec) { s.Subdomain = "db" }, hostname: "db-0",
		},
		"a full name": {
			pod: "db-0", change: func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = ptr.To(true) }, hostname: "db-0",
		},
		"a full name with dots cannot be": {
			pod: "db.eu", change: func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = ptr.To(true) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := elected(nil, tc.change)
			pod.Name = tc.pod
			spec := mustDelegate(t, mustProxy(t, pod)).Spec
			if over := ptr.Deref(spec.HostnameOverride, ""); spec.Hostname != tc.hostname || over != tc.over {
				t.Errorf("host name %q, override %q; want %q and %q", spec.Hostname, over, tc.hostname, tc.over)
			}
		})
	}
}
