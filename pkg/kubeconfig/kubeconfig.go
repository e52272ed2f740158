package kubeconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Parse returns the client configuration of a context of a kubeconfig, by default of the current one. Every error is a
// message for the author of the kubeconfig, who can correct it.
func Parse(data []byte, contextName string) (*rest.Config, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig") // The parser's error may quote a secret.
	}
	if contextName == "" {
		contextName = config.CurrentContext
	}
	if contextName == "" {
		return nil, errors.New("it has no current-context: " +
			"set one, or name a context in the target's spec.kubeconfigSecret.context")
	}
	if err := check(config, contextName); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveClientConfig(*config, contextName, &clientcmd.ConfigOverrides{}, nil)
	restConfig, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("its context %q cannot be used: "+
			"check the certificates, keys and addresses of its cluster and user", contextName)
	}
	if _, err := rest.TLSConfigFor(restConfig); err != nil {
		return nil, fmt.Errorf("its context %q has certificates or a key that cannot be read: "+
			"they must be PEM, base64-encoded", contextName)
	}
	return restConfig, nil
}

func check(config *api.Config, contextName string) error {
	context, ok := config.Contexts[contextName]
	if !ok {
		return fmt.Errorf("it has no context %q, but %s", contextName, names(config.Contexts))
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok {
		return fmt.Errorf("its context %q names the cluster %q, which it does not define", contextName, context.Cluster)
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	if !ok {
		return fmt.Errorf("its context %q names the user %q, which it does not define", contextName, context.AuthInfo)
	}
	return errors.Join(checkCluster(context.Cluster, cluster), checkUser(context.AuthInfo, user))
}

func checkCluster(name string, cluster *api.Cluster) error {
	if cluster.CertificateAuthority != "" {
		return refuseFile("cluster", name, "certificate-authority", "certificate-authority-data")
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return fmt.Errorf("its cluster %q must have a server whose address begins with https://", name)
	}
	if server.User != nil { // Conditions and logs show the address.
		return fmt.Errorf("its cluster %q has a user or password in the address of its server: "+
			"give them in the user entry", name)
	}
	return nil
}

const otherCredentials = "use a service account's token or a client certificate, as kubectl multicluster connect does"

func checkUser(name string, user *api.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return fmt.Errorf("its user %q runs a program (exec), which is not allowed here: %s", name, otherCredentials)
	case user.AuthProvider != nil:
		return fmt.Errorf("its user %q has an auth-provider, which is not allowed here: %s", name, otherCredentials)
	case user.TokenFile != "":
		return refuseFile("user", name, "tokenFile", "token")
	case user.ClientCertificate != "":
		return refuseFile("user", name, "client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return refuseFile("user", name, "client-key", "client-key-data")
	}
	return nil
}

func refuseFile(entry, name, field, instead string) error {
	return fmt.Errorf("its %s %q refers to a file (%s), which is not allowed here: give the content in %s; "+
		"kubectl config view --flatten --raw does that", entry, name, field, instead)
}

func names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none at all"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
