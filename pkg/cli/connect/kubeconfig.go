package connect

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigFor returns a kubeconfig with the token for the API server of config, at the address server if that is set.
// The kubeconfig is self-contained: it names no file and no program.
func kubeconfigFor(config *rest.Config, server string, t token) ([]byte, error) {
	tls := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(tls); err != nil {
		return nil, fmt.Errorf("reading the certificate authority of the target context: %w", err)
	}
	target := clientcmdapi.NewCluster()
	target.Server = config.Host
	if server != "" {
		target.Server = server
	}
	target.TLSServerName = config.ServerName
	target.CertificateAuthorityData = authority(tls, target.Server, t)
	user := clientcmdapi.NewAuthInfo()
	user.Token = t.value
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = "target", "source"

	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[context.Cluster] = target
	kubeconfig.AuthInfos[context.AuthInfo] = user
	kubeconfig.Contexts["target"] = context
	kubeconfig.CurrentContext = "target"
	raw, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return raw, nil
}

// authority returns the certificate authority for the address server: the context's own. It is empty if the context has
// none, because the certificate at the context's address is then a public one, which the source's manager trusts, too.
// Where the context says nothing about the certificate at that address, it is the authority that the cluster gives its
// pods: the context verifies no certificate, or the address is another one than the context's.
func authority(context *rest.Config, server string, t token) []byte {
	if len(context.CAData) == 0 && (context.Insecure || server != context.Host) {
		return t.ca
	}
	return context.CAData
}

// serverHint explains why pods of another cluster cannot reach an address. It is empty if there is no known reason.
func serverHint(server, context string) string {
	u, err := url.Parse(server)
	if err != nil || !isLoopback(u.Hostname()) {
		return ""
	}
	hint := fmt.Sprintf("%s is an address of this machine, which pods of the source cannot reach: "+
		"use --server with an address that they can reach", server)
	if name, ok := strings.CutPrefix(context, "kind-"); ok {
		hint += fmt.Sprintf(", for kind: --server https://%s-control-plane:6443", name)
	}
	return hint
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
