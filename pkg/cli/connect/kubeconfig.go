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

// kubeconfigFor makes a kubeconfig that reaches the API server of config, at server if that is set, and logs in with the token. It
// stands alone: nothing in it names a file or a program.
//
// The certificate authority is the context's, because it signed what is at that address; where the context has none (it trusts this machine's,
// or nothing), it is the one that the cluster gives its pods.
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
	target.CertificateAuthorityData = tls.CAData
	if len(tls.CAData) == 0 {
		target.CertificateAuthorityData = t.ca
	}
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

// serverHint says what is wrong with an address that pods of another cluster cannot reach; it is empty if nothing is known to be.
func serverHint(server, context string) string {
	u, err := url.Parse(server)
	if err != nil || !isLoopback(u.Hostname()) {
		return ""
	}
	hint := fmt.Sprintf("%s is an address of this machine, which pods of the source cannot reach: use --server with one that they can", server)
	if name, ok := strings.CutPrefix(context, "kind-"); ok {
		hint += fmt.Sprintf(", for kind: --server https://%s-control-plane:6443", name)
	}
	return hint
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
