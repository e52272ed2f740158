package cluster

import (
	"context"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/kube"
)

const (
	dnsName = "kube-dns"
	dnsPort = 53
)

// ensureDNS makes the Service by which pods reach CoreDNS, which is no pod itself: it listens at the node's address.
func (c *Cluster) ensureDNS(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return c.waitFor(ctx, "the Service "+dnsName+" exists", func(ctx context.Context) bool {
		return exists(ctx, client, "/api/v1/namespaces/kube-system/services", c.dnsService()) &&
			exists(ctx, client, "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", c.dnsEndpoints())
	}, apiServer, coreDNS)
}

// exists creates an object of the name dnsName if there is none. It reports whether there is one.
func exists(ctx context.Context, client *kube.Client, path string, object object) bool {
	return client.Get(ctx, path+"/"+dnsName, nil) == nil || client.Create(ctx, path, object) == nil
}

func (c *Cluster) dnsService() object {
	return object{
		"metadata": object{"name": dnsName, "labels": object{"k8s-app": dnsName}},
		"spec":     object{"clusterIP": c.Entry.DNS(c.index).String(), "ports": dnsPorts()},
	}
}

func (c *Cluster) dnsEndpoints() object {
	return object{
		"metadata":    object{"name": dnsName, "labels": object{"kubernetes.io/service-name": dnsName}},
		"addressType": "IPv4",
		"endpoints":   []object{{"addresses": []string{c.Address().String()}}},
		"ports":       dnsPorts(),
	}
}

func dnsPorts() []object {
	return []object{
		{"name": "dns", "protocol": "UDP", "port": dnsPort}, {"name": "dns-tcp", "protocol": "TCP", "port": dnsPort},
	}
}
