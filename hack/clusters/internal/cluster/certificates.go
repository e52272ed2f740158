package cluster

import (
	"net/netip"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/pki"
)

const (
	authority           = "ca"
	frontProxyAuthority = "front-proxy-ca"
	serviceAccountKey   = "service-account"

	adminUser = "admin"
	admins    = "system:masters"
)

// certify makes the missing keys and certificates of the cluster.
func (c *Cluster) certify() error {
	store := c.store()
	for _, name := range []string{authority, frontProxyAuthority} {
		if err := store.Authority(name); err != nil {
			return err
		}
	}
	if err := store.KeyPair(serviceAccountKey); err != nil {
		return err
	}
	for name, subject := range c.subjects() {
		if err := store.Issue(authority, name, subject); err != nil {
			return err
		}
	}
	return store.Issue(frontProxyAuthority, "front-proxy-client", pki.Subject{User: "front-proxy-client"})
}

func (c *Cluster) subjects() map[string]pki.Subject {
	loopback := netip.MustParseAddr("127.0.0.1")
	return map[string]pki.Subject{
		"kube-apiserver": {
			User: "kube-apiserver",
			Names: []string{
				"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
				"localhost",
			},
			Addresses: []netip.Addr{c.Address(), c.Entry.APIService(c.index), loopback},
		},
		"kube-apiserver-kubelet-client": {User: "kube-apiserver-kubelet-client", Groups: []string{admins}},
		"kubelet": {
			User: "system:node:" + c.Node(), Groups: []string{"system:nodes"},
			Names: []string{c.Node()}, Addresses: []netip.Addr{c.Address(), loopback},
		},
		"kube-controller-manager": {User: "system:kube-controller-manager"},
		"kube-scheduler":          {User: "system:kube-scheduler"},
		"kube-proxy":              {User: "system:kube-proxy"},
		coreDNS:                   {User: "coredns", Groups: []string{admins}},
		"kwok":                    {User: "kwok", Groups: []string{admins}},
		adminUser:                 {User: "admin", Groups: []string{admins}},
	}
}
