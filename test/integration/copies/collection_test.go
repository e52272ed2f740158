package copies

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestCopiesThatNobodyNeedsAreDeleted(t *testing.T) {
	startManager(t, managerUser)
	namespace := env.Namespace(t, nil, target)
	admin := administrator(t)
	web := createChaperon(t, namespace, "web", "c1", "needed")
	other := createChaperon(t, namespace, "other", "c2", "of-another-source")

	const (
		marked = `"annotations":{"multicluster.admiralty.io/followed-by":"USER"},` + label
		global = `"annotations":{"multicluster.admiralty.io/followed-by":"USER",` +
			`"multicluster.admiralty.io/global":"true"},` + label
	)
	objects := bodies()
	for _, path := range slices.Sorted(maps.Keys(objects)) { // Services come before EndpointSlices.
		for name, metadata := range map[string]string{
			"needed": marked, "not-needed": marked, "of-another-source": marked, "touched": marked, "global": global,
			"not-marked": label, "not-a-copy": `"labels":{}`,
		} {
			if path == endpointSlices {
				metadata = ofService(name, metadata)
			}
			admin.expect(t, http.StatusCreated, create(path, name, metadata, objects[path]), namespace)
		}
	}

	const all = "global needed not-a-copy not-marked not-needed of-another-source touched"
	waitForRemaining(t, namespace, touch, remaining{
		referred: "needed not-a-copy not-marked touched", others: all, claims: all,
	})
	waitForRemaining(t, namespace, nil, remaining{referred: "needed not-a-copy not-marked", others: all, claims: all})
	env.Delete(t, target, other)
	env.Delete(t, target, web)
	waitForRemaining(t, namespace, nil, remaining{
		referred: "not-a-copy not-marked", others: "global not-a-copy not-marked", claims: all,
	})
}

func TestTLSSecretsStayWithTheirIngress(t *testing.T) {
	startManager(t, managerUser)
	namespace := env.Namespace(t, nil, target)
	admin := administrator(t)
	createChaperon(t, namespace, "web", "c1", "needed")
	for _, made := range []request{
		create(ingresses, "web", marks, `"spec":{"tls":[{"secretName":"tls"}],"rules":[{"host":"example.org"}]}`),
		create(secrets, "tls", marks, `"data":{}`),
		create(secrets, "not-needed", marks, `"data":{}`),
	} {
		admin.expect(t, http.StatusCreated, made, namespace)
	}
	waitForSecrets := func(want string) {
		t.Helper()
		env.Eventually(t, func(ctx context.Context) error { return expectNames(ctx, t, secrets, namespace, want) })
	}
	waitForSecrets("tls")
	admin.expect(t, http.StatusOK, remove(ingresses+"/web"), namespace)
	waitForSecrets("")
}

// TestOnlySecretsOfTheManagersNamespacesAreCollected has a release whose chart gives the manager rights on Secrets in
// some namespaces, and no more.
func TestOnlySecretsOfTheManagersNamespacesAreCollected(t *testing.T) {
	mine, others := env.Namespace(t, nil, target), env.Namespace(t, nil, target)
	user := env.ServiceAccountUser(env.ReleaseNamespace, "narrow-"+env.ManagerAccount)
	target.Install(t, env.Render(t, "narrow", "--show-only", "templates/rbac/following.yaml",
		"--show-only", "templates/rbac/delegates.yaml", "--show-only", "templates/rbac/secrets.yaml",
		"--set", "rbac.secretNamespaces={"+mine+"}"), user)
	startManager(t, user, env.ReleaseNamespace, mine)
	env.Create(t, target, &corev1.Secret{ObjectMeta: copyMeta(others)}, &corev1.Secret{ObjectMeta: copyMeta(mine)})
	env.WaitGone(t, target, &corev1.Secret{ObjectMeta: copyMeta(mine)})
	env.Get(t, target, &corev1.Secret{ObjectMeta: copyMeta(others)}) // This one is older.
}

// TestOnlySecretsWaitForIngresses has a manager that may not watch Ingresses. It does not know which Secrets they
// need, but all the rest.
func TestOnlySecretsWaitForIngresses(t *testing.T) {
	namespace := env.Namespace(t, nil, target)
	const user = "without-ingresses"
	target.Grant(t, user, "", env.Rule(v1alpha1.GroupName, []string{"podchaperons"}, "list", "watch"),
		env.Rule("", []string{"configmaps", "secrets", "services"}, "list", "watch", "delete"))
	startManager(t, user)
	secret := &corev1.Secret{ObjectMeta: copyMeta(namespace)}
	configMap := &corev1.ConfigMap{ObjectMeta: copyMeta(namespace)}
	service := &corev1.Service{ObjectMeta: copyMeta(namespace)}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	env.Create(t, target, secret, service, configMap)
	env.WaitGone(t, target, service)
	env.WaitGone(t, target, configMap)
	env.Get(t, target, secret) // An Ingress may need it.
}

// copyMeta returns the metadata of a copy.
func copyMeta(namespace string) metav1.ObjectMeta {
	meta := env.Meta(namespace, "db")
	meta.Labels = map[string]string{v1alpha1.LabelParentClusterID: "c1"}
	meta.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: "admin"} // The policy lets nobody else set it.
	return meta
}

// remaining lists the names of objects that must remain: of the kinds that pods refer to, of claims, and of other
// kinds.
type remaining struct{ referred, claims, others string }

// waitForRemaining waits until only those objects remain, and calls meanwhile again and again until then.
func waitForRemaining(
	t *testing.T, namespace string, meanwhile func(context.Context, *testing.T, string), want remaining,
) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		if meanwhile != nil {
			meanwhile(ctx, t, namespace)
		}
		for path := range bodies() {
			wanted := want.others
			switch {
			case resourceOf(path) == "persistentvolumeclaims":
				wanted = want.claims
			case referred(path):
				wanted = want.referred
			}
			if err := expectNames(ctx, t, path, namespace, wanted); err != nil {
				return err
			}
		}
		return nil
	})
}

// expectNames returns an error unless the objects of a path have these names.
func expectNames(ctx context.Context, t *testing.T, path, namespace, want string) error {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listKind(path))
	env.Must(t, target.Client.List(ctx, list, client.InNamespace(namespace)))
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	if got := strings.Join(names, " "); got != want {
		return fmt.Errorf("%s: %q remain, want %q", path, got, want)
	}
	return nil
}

// touch writes the copies of that name, as a source does before it needs them.
func touch(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	admin := administrator(t)
	now := time.Now().Format(time.RFC3339Nano)
	body := `{"metadata":{"annotations":{"multicluster.admiralty.io/needed-at":"` + now + `"}}}`
	for path := range bodies() {
		if code, answer := admin.do(ctx, t, patch(path+"/touched", merge, body), namespace); code != http.StatusOK {
			t.Errorf("touching: answer %d: %s", code, answer)
		}
	}
}

// createChaperon creates a PodChaperon that refers to a ConfigMap, a Secret and a ServiceAccount of that name.
func createChaperon(t *testing.T, namespace, name, source, needed string) *v1alpha1.PodChaperon {
	t.Helper()
	c := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(namespace, name), Spec: env.PodSpec()}
	c.Labels = map[string]string{v1alpha1.LabelParentClusterID: source}
	c.Spec.ServiceAccountName = needed
	c.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: needed}}
	c.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: needed}}},
	}
	env.Create(t, target, c)
	return c
}
