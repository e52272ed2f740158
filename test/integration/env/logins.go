package env

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// User returns a login with a client certificate for a user name. It has the rights that RBAC gives this user.
func (c *Cluster) User(t T, name string) *rest.Config {
	t.Helper()
	user, err := c.environment.AddUser(envtest.User{Name: name}, &rest.Config{QPS: -1})
	if err != nil {
		t.Fatalf("adding user %q to %s: %v", name, c.Name, err)
	}
	config := user.Config()
	config.Host = c.Config.Host
	return config
}

// Impersonate returns a login as a user in groups. It uses the administrator's right to impersonate.
func (c *Cluster) Impersonate(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// Token creates a service account, whose name may be generated, and returns a login with a token of it.
func (c *Cluster) Token(t T, account *corev1.ServiceAccount) *rest.Config {
	t.Helper()
	Create(t, c, account)
	request := &authenticationv1.TokenRequest{}
	Must(t, c.Client.SubResource("token").Create(t.Context(), account, request))
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = request.Status.Token
	return config
}

// ServiceAccountUser returns the user name of a service account.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Grant gives a user rights in a namespace, or everywhere if that is empty. It returns when the API server knows them.
func (c *Cluster) Grant(t T, user, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Rules: rules}
	Create(t, c, role)
	c.BindRole(t, user, namespace, role.Name)
}

// BindRole gives a user the rights of a ClusterRole in a namespace, or everywhere if that is empty. It waits until the
// API server knows.
func (c *Cluster) BindRole(t T, user, namespace, clusterRole string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, GenerateName: "test-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	if namespace == "" {
		Create(t, c, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	} else {
		Create(t, c, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects})
	}
	role := Get(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: clusterRole}})
	for i := range role.Rules {
		if rule := &role.Rules[i]; len(rule.Resources) > 0 {
			c.waitAllowed(t, user, namespace, rule)
		}
	}
}

// Rule makes a rule of RBAC.
func Rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// waitAllowed waits until the API server allows the first kind of request that a rule allows.
func (c *Cluster) waitAllowed(t T, user, namespace string, rule *rbacv1.PolicyRule) {
	t.Helper()
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Group: rule.APIGroups[0], Verb: rule.Verbs[0],
	}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(rule.Resources[0], "/")
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	Eventually(t, func(ctx context.Context) error {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: attributes},
		}
		if err := c.Client.Create(ctx, review); err != nil {
			return err
		}
		if !review.Status.Allowed {
			return fmt.Errorf("%s may not %s %s in %s", user, rule.Verbs[0], rule.Resources[0], c.Name)
		}
		return nil
	})
}

// ClientFor returns a client with the rights of a login, without a cache.
func ClientFor(t T, login *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(login, client.Options{Scheme: Scheme()})
	Must(t, err)
	return c
}

// Intercept returns a login that calls see with each request. If see returns a response, this is the answer. Otherwise
// the request is sent.
func Intercept(login *rest.Config, see func(*http.Request) *http.Response) *rest.Config {
	config := rest.CopyConfig(login)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &interceptor{see: see, next: next} })
	return config
}

type interceptor struct {
	see  func(*http.Request) *http.Response
	next http.RoundTripper
}

func (i *interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	if answer := i.see(r); answer != nil {
		return answer, nil
	}
	return i.next.RoundTrip(r)
}

// Kubeconfig returns a kubeconfig with these contexts. The first is the current one.
func Kubeconfig(t T, contexts ...Context) []byte {
	t.Helper()
	kubeconfig := clientcmdapi.NewConfig()
	for _, c := range slices.Backward(contexts) {
		kubeconfig.CurrentContext = c.Name
		kubeconfig.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
		kubeconfig.Clusters[c.Name] = &clientcmdapi.Cluster{
			Server: c.Login.Host, CertificateAuthorityData: c.Login.CAData, InsecureSkipTLSVerify: c.Login.Insecure,
		}
		kubeconfig.AuthInfos[c.Name] = &clientcmdapi.AuthInfo{
			ClientCertificateData: c.Login.CertData, ClientKeyData: c.Login.KeyData, Token: c.Login.BearerToken,
		}
	}
	data, err := clientcmd.Write(*kubeconfig)
	Must(t, err)
	return data
}

// Context is a context of a kubeconfig.
type Context struct {
	Name  string
	Login *rest.Config
}
