package services

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// limited is a ClusterTarget in which the source has rights in some namespaces only.
type limited struct {
	*env.Target

	grant    *v1alpha1.SourceGrant
	requests env.Journal // paths of requests for kinds that the source copies
}

// engageLimited engages a ClusterTarget of the name given, with rights in namespaces.
func engageLimited(t *testing.T, name string, namespaces ...string) *limited {
	t.Helper()
	l := &limited{Target: newTarget("", name, cluster2)}
	l.grant = &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.grant.Spec.UserName = name
	env.CreateForTest(t, cluster2, l.grant)
	for _, namespace := range namespaces {
		cluster2.BindRole(t, name, namespace, env.SourceRole)
	}
	cluster2.Grant(t, name, "", env.Rule(v1alpha1.GroupName, []string{"podchaperons"}, "list", "watch"))
	env.Ensure(t, source, env.VirtualNode(l.NodeName))
	l.Login = env.Intercept(cluster2.User(t, name), func(r *http.Request) *http.Response {
		for _, resource := range []string{"/services", "/endpointslices", "/ingresses"} {
			if strings.HasSuffix(r.URL.Path, resource) && r.Method == http.MethodGet {
				l.requests.Add(r.URL.Path)
			}
		}
		return nil
	})
	l.Customize = func(e *engage.Target) { e.Copied = cluster2.Copied(t, l.grant) }
	l.Engage(t, registry)
	return l
}

// publish plays the target's manager: it names the namespaces with copies.
func (l *limited) publish(t *testing.T, namespaces ...string) {
	t.Helper()
	env.ChangeStatus(t, cluster2, l.grant, func(g *v1alpha1.SourceGrant) { g.Status.Copied = namespaces })
}

// askedFor says whether a request for a path was made.
func (l *limited) askedFor(path string) bool { return len(l.requests.With(path)) > 0 }

func TestCopiesAreReadOnlyWhereTheSourceHasThem(t *testing.T) {
	ns := func() string { return env.Namespace(t, env.Enabled(), source, cluster2) }
	used, left, idle := ns(), ns(), ns()
	target := engageLimited(t, "limited", used, left, idle)
	create(t, idle, "web")
	services, shops := map[string]*corev1.Service{}, map[string]*networkingv1.Ingress{}
	for _, namespace := range []string{used, left} {
		services[namespace] = create(t, namespace, "web", annotated(v1alpha1.AnnotationGlobal))
		waitForCopy(t, target.Target, services[namespace])
	}
	if ingresses := "/apis/networking.k8s.io/v1/namespaces/" + used + "/ingresses"; target.askedFor(ingresses) {
		t.Error("Ingresses are watched where there are none")
	}
	shops[left] = globalIngress(left)
	env.Create(t, source, shops[left])
	waitForCopy(t, target.Target, shops[left])

	target.Disengage()
	env.Delete(t, source, services[left])
	env.Delete(t, source, shops[left])
	target.Engage(t, registry) // A new leader remembers nothing.
	waitForWorkers(t, used, target.Target)
	if !env.Exists(t, cluster2, namesake(services[left])) || !env.Exists(t, cluster2, namesake(shops[left])) {
		t.Fatal("a copy is gone before anybody can know of it")
	}
	target.publish(t, used, left, "No namespace")
	waitForNoCopy(t, target.Target, services[left])
	waitForNoCopy(t, target.Target, shops[left])
	for _, path := range []string{"/v1/services", "/v1/endpointslices", "/v1/ingresses", idle, "No namespace"} {
		if target.askedFor(path) {
			t.Errorf("%s was read", path)
		}
	}
}

func TestANamespaceThatIsGrantedLaterGetsItsCopies(t *testing.T) {
	namespace := env.Namespace(t, env.Enabled(), source, cluster2)
	target := engageLimited(t, "later")
	service := create(t, namespace, "web", annotated(v1alpha1.AnnotationGlobal))
	other := create(t, namespace, "other")
	waitForReport(t, service, target.Target, "cannot list resource")
	cluster2.BindRole(t, "later", namespace, env.SourceRole)
	reader := env.ClientFor(t, cluster2.User(t, "later"))
	env.Eventually(t, func(ctx context.Context) error {
		return reader.List(ctx, &corev1.ServiceList{}, client.InNamespace(namespace))
	})
	target.publish(t)
	waitForCopy(t, target.Target, service)
	if got := reports(other, target.Target, ""); len(got) > 0 {
		t.Errorf("a Service that does not go there is reported: %q", got)
	}
}
