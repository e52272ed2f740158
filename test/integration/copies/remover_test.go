package copies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/copies"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// grace is long enough to touch a copy in time on a busy machine.
const grace = 3 * time.Second

func TestCopiesGoWhenNobodyNeedsThem(t *testing.T) {
	start(t)
	namespace := target.Namespace(t, nil)
	admin := impersonated(t, "admin", "system:masters")
	web := chaperon(t, namespace, "web", "c1", "needed")
	other := chaperon(t, namespace, "other", "c2", "of-another-source")

	const marked, global = `"annotations":{"multicluster.admiralty.io/followed-by":"c1"},` + label, `"annotations":{"multicluster.admiralty.io/followed-by":"c1","multicluster.admiralty.io/global":"true"},` + label
	for path, body := range bodies() {
		for name, metadata := range map[string]string{
			"needed": marked, "not-needed": marked, "of-another-source": marked, "touched": marked, "global": global,
			"not-marked": label, "not-a-copy": `"labels":{}`,
		} {
			made := request{"POST", path, json, named(name, metadata, body)}
			if code, answer := admin.do(t.Context(), t, made, namespace); code != http.StatusCreated {
				t.Fatalf("making %s %s: answer %d: %s", path, name, code, answer)
			}
		}
	}

	awaitLeft(t, admin, namespace, touch, left{
		referred: "needed not-a-copy not-marked touched",
		others:   "global needed not-a-copy not-marked not-needed of-another-source touched",
	})
	awaitLeft(t, admin, namespace, nil, left{
		referred: "needed not-a-copy not-marked",
		others:   "global needed not-a-copy not-marked not-needed of-another-source touched",
	})
	must(t, target.Client.Delete(t.Context(), other))
	must(t, target.Client.Delete(t.Context(), web))
	awaitLeft(t, admin, namespace, nil, left{referred: "not-a-copy not-marked", others: "global not-a-copy not-marked"})
}

func TestTLSSecretsStayWithTheirIngress(t *testing.T) {
	start(t)
	namespace := target.Namespace(t, nil)
	admin := impersonated(t, "admin", "system:masters")
	chaperon(t, namespace, "web", "c1", "needed")
	for _, made := range []request{
		{"POST", ingresses, json, named("web", marks, `"spec":{"tls":[{"secretName":"tls"}],"rules":[{"host":"example.org"}]}`)},
		{"POST", secrets, json, named("tls", marks, `"data":{}`)},
		{"POST", secrets, json, named("not-needed", marks, `"data":{}`)},
	} {
		if code, answer := admin.do(t.Context(), t, made, namespace); code != http.StatusCreated {
			t.Fatalf("answer %d: %s", code, answer)
		}
	}
	awaitSecrets := func(want string) {
		apiserver.Eventually(t, func(ctx context.Context) error {
			if got := names(ctx, t, secrets, namespace); got != want {
				return fmt.Errorf("%q are left, want %q", got, want)
			}
			return nil
		})
	}
	awaitSecrets("tls")
	if code, answer := admin.do(t.Context(), t, request{verb: "DELETE", path: ingresses + "/web"}, namespace); code != http.StatusOK {
		t.Fatalf("answer %d: %s", code, answer)
	}
	awaitSecrets("")
}

// The chart gives the manager the rights that it tells it of, and no more.
func TestSecretsOfOtherNamespacesAreNotTheManagers(t *testing.T) {
	mine, others := target.Namespace(t, nil), target.Namespace(t, nil)
	account, err := installNarrow(t.Context(), target.Client, mine)
	must(t, err)
	startAs(t, serviceAccount(t, admiralty, account).user, []string{admiralty, mine})
	for _, namespace := range []string{others, mine} {
		must(t, target.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: copyMeta(namespace)}))
	}
	get := func(ctx context.Context, namespace string) error {
		return target.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "db"}, &corev1.Secret{})
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		if err := get(ctx, mine); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the copy in the manager's namespace is still there: %w", err)
		}
		return nil
	})
	if err := get(t.Context(), others); err != nil {
		t.Errorf("the older one in another: %v", err)
	}
}

// A manager that may not watch Ingresses does not know which Secrets they need. The rest it does know.
func TestOnlySecretsWaitForIngresses(t *testing.T) {
	namespace := target.Namespace(t, nil)
	const user = "without-ingresses"
	meta := metav1.ObjectMeta{Name: user}
	must(t, target.Client.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"podchaperons"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "services"}, Verbs: []string{"list", "watch", "delete"}},
	}}))
	must(t, target.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	startAs(t, user, nil)
	secret := &corev1.Secret{ObjectMeta: copyMeta(namespace)}
	service := &corev1.Service{ObjectMeta: copyMeta(namespace), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, object := range []client.Object{secret, service, &corev1.ConfigMap{ObjectMeta: copyMeta(namespace)}} {
		must(t, target.Client.Create(t.Context(), object))
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		for _, object := range []client.Object{&corev1.Service{}, &corev1.ConfigMap{}} {
			if err := target.Client.Get(ctx, client.ObjectKeyFromObject(secret), object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("a %T that nobody needs is still there: %w", object, err)
			}
		}
		return nil
	})
	if err := target.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		t.Errorf("a Secret that an Ingress may need: %v", err)
	}
}

// copyMeta is that of a copy.
func copyMeta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: "db",
		Labels:      map[string]string{v1alpha1.LabelParentClusterID: "c1"},
		Annotations: map[string]string{v1alpha1.AnnotationFollowedBy: "c1"},
	}
}

const label = `"labels":{"multicluster.admiralty.io/parent-cluster-id":"c1"}`

// left is what is to be left, of the kinds that pods refer to and of the others. Claims always stay.
type left struct{ referred, others string }

func awaitLeft(t *testing.T, admin identity, namespace string, meanwhile func(context.Context, *testing.T, identity, string), want left) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		if meanwhile != nil {
			meanwhile(ctx, t, admin, namespace)
		}
		for path := range bodies() {
			wanted := want.referred
			switch {
			case strings.HasSuffix(path, "/persistentvolumeclaims"):
				wanted = "global needed not-a-copy not-marked not-needed of-another-source touched"
			case !referred(path):
				wanted = want.others
			}
			if got := names(ctx, t, path, namespace); got != wanted {
				return fmt.Errorf("%s: %q are left, want %q", path, got, wanted)
			}
		}
		return nil
	})
}

func names(ctx context.Context, t *testing.T, path, namespace string) string {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(listKind(path))
	must(t, target.Client.List(ctx, list, client.InNamespace(namespace)))
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return strings.Join(names, " ")
}

// touch writes the copies of that name, as a source does before it needs them.
func touch(ctx context.Context, t *testing.T, admin identity, namespace string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"multicluster.admiralty.io/needed-at":"` + time.Now().Format(time.RFC3339Nano) + `"}}}`
	for path := range bodies() {
		if code, answer := admin.do(ctx, t, request{"PATCH", path + "/touched", merge, patch}, namespace); code != http.StatusOK {
			t.Errorf("touching: answer %d: %s", code, answer)
		}
	}
}

// start runs the part of the target's manager, with the rights that the chart gives it.
func start(t *testing.T) {
	t.Helper()
	startAs(t, serviceAccount(t, admiralty, manager).user, nil)
}

func startAs(t *testing.T, user string, secretNamespaces []string) {
	t.Helper()
	restConfig := rest.CopyConfig(target.Config)
	restConfig.Impersonate = rest.ImpersonationConfig{UserName: user}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:     target.Client.Scheme(),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	must(t, err)
	remover, err := copies.New(copies.Options{
		Config: mgr.GetConfig(), Cache: mgr.GetCache(), Clock: clock.RealClock{}, Grace: grace, SecretNamespaces: secretNamespaces,
	})
	must(t, err)
	must(t, remover.Register(mgr))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-stopped)
	})
}

// chaperon makes a PodChaperon that refers to a ConfigMap, a Secret and a ServiceAccount of that name.
func chaperon(t *testing.T, namespace, name, source, needed string) *v1alpha1.PodChaperon {
	t.Helper()
	c := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelParentClusterID: source}},
		Spec: corev1.PodSpec{
			ServiceAccountName: needed,
			ImagePullSecrets:   []corev1.LocalObjectReference{{Name: needed}},
			Containers: []corev1.Container{{Name: "web", Image: "web", EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: needed}}},
			}}},
		},
	}
	must(t, target.Client.Create(t.Context(), c))
	return c
}
