package copies

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// identity is someone who makes requests.
type identity struct {
	user   string
	config *rest.Config
	http   *http.Client
}

// request is one that an identity makes; NS in path and body is the test's namespace, USER the identity's user name.
type request struct {
	verb, path, contentType, body string
}

// source makes a service account, binds it to the role of sources in the namespace and returns it with its token.
func source(t *testing.T, name, namespace string) identity {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: admiralty, GenerateName: name + "-"}}
	must(t, target.Client.Create(t.Context(), account))
	must(t, target.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: sourceRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: admiralty, Name: account.Name}},
	}))
	token := &authenticationv1.TokenRequest{}
	must(t, target.Client.SubResource("token").Create(t.Context(), account, token))
	config := rest.AnonymousClientConfig(target.Config)
	config.BearerToken = token.Status.Token
	id := newIdentity(t, "system:serviceaccount:"+admiralty+":"+account.Name, config)
	// API servers learn of bindings and policies from a watch.
	probe := request{"POST", "/api/v1/namespaces/NS/configmaps?dryRun=All", "application/json", `{"metadata":{"name":"probe"}}`}
	apiserver.Eventually(t, func(ctx context.Context) error {
		if _, answer := id.do(ctx, t, probe, namespace); !strings.Contains(answer, "must have the annotation") {
			return fmt.Errorf("a source may make anything: %s", answer)
		}
		return nil
	})
	return id
}

// impersonated is someone of the cluster's own, with the rights that such a user has.
func impersonated(t *testing.T, user string, groups ...string) identity {
	t.Helper()
	config := rest.CopyConfig(target.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return newIdentity(t, user, config)
}

func serviceAccount(t *testing.T, namespace, name string) identity {
	t.Helper()
	return impersonated(t, "system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace, "system:authenticated")
}

func newIdentity(t *testing.T, user string, config *rest.Config) identity {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	must(t, err)
	return identity{user: user, config: config, http: client}
}

// do makes the request and returns what the API server answers.
func (i identity) do(ctx context.Context, t *testing.T, r request, namespace string) (code int, answer string) {
	t.Helper()
	fill := strings.NewReplacer("NS", namespace, "USER", i.user)
	req, err := http.NewRequestWithContext(ctx, r.verb, strings.TrimSuffix(i.config.Host, "/")+fill.Replace(r.path), strings.NewReader(fill.Replace(r.body)))
	must(t, err)
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	response, err := i.http.Do(req)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
