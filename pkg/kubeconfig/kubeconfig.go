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

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/plainyaml"
)

// Rules say which fields a kubeconfig may have. The zero value is the strictest.
type Rules struct {
	// AllowProxy allows proxy-url, and AllowInsecure insecure-skip-tls-verify.
	AllowProxy, AllowInsecure bool
}

// NotAllowedError says that the rules do not allow a field of a kubeconfig.
type NotAllowedError struct{ message string }

// Error is a message for the author of the kubeconfig.
func (e *NotAllowedError) Error() string { return e.message }

// Parse returns the client configuration of a context of a kubeconfig, by default of the current one. Every error is a
// message for the author of the kubeconfig, who can correct it. A *NotAllowedError is among the errors if the rules do
// not allow a field.
func Parse(data []byte, contextName string, rules Rules) (*rest.Config, error) {
	if err := plainyaml.Check(data); err != nil {
		return nil, errors.New("it is not a kubeconfig, or has YAML aliases (*name), which are not allowed here: " +
			"write out what they stand for")
	}
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
	if err := check(config, contextName, rules); err != nil {
		return nil, err
	}
	loader := clientcmd.NewNonInteractiveClientConfig(*config, contextName, &clientcmd.ConfigOverrides{}, nil)
	restConfig, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("its context %q cannot be used: "+
			"check the certificates, keys and addresses of its cluster and user", contextName)
	}
	if err := checkTLS(&restConfig.TLSClientConfig); err != nil {
		return nil, err
	}
	if _, err := rest.TLSConfigFor(restConfig); err != nil {
		return nil, fmt.Errorf("its context %q has certificates or a key that cannot be read: "+
			"they must be PEM, base64-encoded", contextName)
	}
	return restConfig, nil
}

func check(config *api.Config, contextName string, rules Rules) error {
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
	return errors.Join(
		checkCluster(context.Cluster, cluster),
		checkRules(context.Cluster, cluster, rules),
		checkUser(context.AuthInfo, user),
	)
}

func checkRules(name string, cluster *api.Cluster, rules Rules) error {
	refuse := func(field, instead, value string) error {
		return &NotAllowedError{fmt.Sprintf("its cluster %q has %s, which Targets of namespaces must not have: %s, "+
			"or ask the administrators to set the chart's %s", name, field, instead, value)}
	}
	var errs []error
	if cluster.InsecureSkipTLSVerify && !rules.AllowInsecure {
		errs = append(errs, refuse("insecure-skip-tls-verify",
			"give the server's authority in certificate-authority-data", "tenants.allowInsecure"))
	}
	if cluster.ProxyURL != "" && !rules.AllowProxy {
		errs = append(errs, refuse("proxy-url", "leave it out", "tenants.allowProxy"))
	}
	return errors.Join(errs...)
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
