package grants

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var (
	// target is a target cluster with the chart's roles and policy. The tests share it, and run one after the other.
	target *env.Cluster
	// managerUser is the user name of its manager.
	managerUser = env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
)

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		target = env.Start(t, "target")[0]
		env.Create(t, target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
		// A manager that is a target only, with as few parts as possible, has the fewest rights.
		target.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
			"--show-only", "templates/rbac/*.yaml",
			"--set", "roles.source=false,rbac.parts.garbageCollection=false"), managerUser)
	})
}

// run runs the controllers with the rights of the target's manager, until stop is called or the test ends. see is
// called with each of their requests, unless it is nil, and may answer it.
func run(t *testing.T, enforce bool, see func(*http.Request) *http.Response) (stop func()) {
	t.Helper()
	login := target.Impersonate(managerUser)
	if see != nil {
		login = env.Intercept(login, see)
	}
	return env.RunManager(t, login, func(mgr ctrl.Manager) error {
		return source.New(source.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Recorder:              mgr.GetEventRecorder("sources"),
			SourceClusterRoleName: env.SourceRole, LeavingClusterRoleName: env.LeavingRole,
			SummaryViewerClusterRoleName: env.SummaryViewerRole,
			EarlierClusterRoleName:       env.EarlierRole,
			ReleaseNamespace:             env.ReleaseNamespace, LeasesNamespace: env.LeasesNamespace,
			EnforceDefaultExclusions: enforce,
		}).Register(t.Context(), mgr)
	})
}

// identity is a source with its token.
type identity struct {
	user   string
	name   string // of the ClusterSource or Source
	client client.Client
	login  *rest.Config
	pods   kubernetes.Interface
}

// newIdentity creates a service account, and returns it with its token. It has no rights.
func newIdentity(t *testing.T) identity {
	t.Helper()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.ReleaseNamespace, GenerateName: "source-"},
	}
	login := target.Token(t, account)
	pods, err := kubernetes.NewForConfig(login)
	env.Must(t, err)
	return identity{
		user: env.ServiceAccountUser(account.Namespace, account.Name), name: account.Name,
		client: env.ClientFor(t, login), login: login, pods: pods,
	}
}

// clusterSource returns the ClusterSource of the identity, which does not exist yet.
func (i identity) clusterSource(selector *metav1.LabelSelector) *v1alpha1.ClusterSource {
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: i.name},
		Spec: v1alpha1.ClusterSourceSpec{
			ServiceAccount:    &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: i.name},
			NamespaceSelector: selector, ClusterID: "id-of-" + i.name,
		},
	}
}

// connect creates the ClusterSource, and waits until it is ready.
func (i identity) connect(t *testing.T, selector *metav1.LabelSelector) *v1alpha1.ClusterSource {
	t.Helper()
	object := i.clusterSource(selector)
	env.Create(t, target, object)
	waitCondition(t, object, v1alpha1.ConditionReady, v1alpha1.ReasonReady, "")
	return object
}

// waitCondition waits until a condition has a reason, and a message that contains a text.
func waitCondition(t *testing.T, object *v1alpha1.ClusterSource, kind, reason, text string) {
	t.Helper()
	env.WaitFor(t, target, object, func(object *v1alpha1.ClusterSource) error {
		c := meta.FindStatusCondition(object.Status.Conditions, kind)
		if c == nil || c.Reason != reason || c.ObservedGeneration != object.Generation ||
			!strings.Contains(c.Message, text) {
			return fmt.Errorf("condition is %+v, want reason %s and something about %q", c, reason, text)
		}
		return nil
	})
}

// chaperon returns a PodChaperon as the identity makes it.
func (i identity) chaperon(namespace, name string) *v1alpha1.PodChaperon {
	return env.Chaperon(namespace, name, "id-of-"+i.name, types.NamespacedName{Name: "target"})
}

// copied returns a copy as the identity makes it.
func (i identity) copied(namespace, name string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: env.Meta(namespace, name)}
	c.Labels = map[string]string{v1alpha1.LabelParentClusterID: "id-of-" + i.name}
	c.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: i.user}
	return c
}

// attempts are the requests of a source in a namespace that has the pod "app". Those that create are dry runs.
func (i identity) attempts(namespace string) map[string]func(context.Context) error {
	pods := i.pods.CoreV1().Pods(namespace)
	return map[string]func(context.Context) error{
		"create a PodChaperon": func(ctx context.Context) error {
			return i.client.Create(ctx, i.chaperon(namespace, "new"), client.DryRunAll)
		},
		"apply a PodChaperon": func(ctx context.Context) error {
			chaperon := i.chaperon(namespace, "new")
			chaperon.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodChaperon"}
			patch := client.Apply //nolint:staticcheck // the test sends what a source can send
			return i.client.Patch(ctx, chaperon, patch, client.FieldOwner("source"), client.DryRunAll)
		},
		"create a copy": func(ctx context.Context) error {
			return i.client.Create(ctx, i.copied(namespace, "new"), client.DryRunAll)
		},
		"delete a PodChaperon": func(ctx context.Context) error {
			return i.client.Delete(ctx, i.chaperon(namespace, "none"))
		},
		"delete a copy": func(ctx context.Context) error {
			return i.client.Delete(ctx, i.copied(namespace, "none"))
		},
		"read logs": func(ctx context.Context) error {
			return pods.GetLogs("app", &corev1.PodLogOptions{}).Do(ctx).Error()
		},
		"exec": func(ctx context.Context) error {
			return i.pods.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name("app").
				SubResource("exec").Param("command", "id").Param("stdout", "true").Do(ctx).Error()
		},
	}
}

const (
	nothing = "nothing"
	ending  = "all but creation"
	all     = "everything"
)

// expect waits until the identity may do something in a namespace: nothing, all but creation, or everything.
func (i identity) expect(t *testing.T, namespace, want string) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error { return i.check(ctx, namespace, want) })
}

func (i identity) check(ctx context.Context, namespace, want string) error {
	for what, attempt := range i.attempts(namespace) {
		creates := strings.HasPrefix(what, "create") || strings.HasPrefix(what, "apply")
		allowed := want == all || want == ending && !creates
		err := attempt(ctx)
		if apierrors.IsForbidden(err) == allowed {
			return fmt.Errorf("in namespace %q, to %s is allowed: %t, want %t: %w",
				namespace, what, !allowed, allowed, err)
		}
		if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) {
			return fmt.Errorf("to %s: %w", what, err)
		}
	}
	return nil
}

// namespaceWithPod creates a namespace with the pod "app".
func namespaceWithPod(t *testing.T, labels map[string]string) string {
	t.Helper()
	namespace := env.Namespace(t, labels, target)
	addPod(t, namespace)
	return namespace
}

func addPod(t *testing.T, namespace string) {
	t.Helper()
	env.Ensure(t, target, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "default")})
	env.Ensure(t, target, &corev1.Pod{ObjectMeta: env.Meta(namespace, "app"), Spec: env.PodSpec()})
}

// label changes a label of a namespace. An empty value removes it.
func label(t *testing.T, namespace, key, value string) {
	t.Helper()
	env.Change(t, target, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		if n.Labels[key] = value; value == "" {
			delete(n.Labels, key)
		}
	})
}

// grantOf returns the SourceGrant of the identity, to be read.
func (i identity) grantOf() *v1alpha1.SourceGrant {
	return &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(i.user)}}
}

// oldBinding is the ClusterRoleBinding that earlier versions made for a ClusterSource.
func (i identity) oldBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: "multicluster-source:" + i.name, Labels: map[string]string{v1alpha1.GroupName + "/source": ""},
		},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: env.SourceRole},
		Subjects: []rbacv1.Subject{
			{Kind: rbacv1.ServiceAccountKind, Namespace: env.ReleaseNamespace, Name: i.name},
		},
	}
}

// may asks the authorizer whether a user has the right that a rule gives in a namespace.
func may(t *testing.T, user, namespace string, rule *rbacv1.PolicyRule) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: v1alpha1.GroupName, Verb: rule.Verbs[0], Resource: rule.Resources[0],
		},
	}}
	if len(rule.ResourceNames) > 0 {
		review.Spec.ResourceAttributes.Name = rule.ResourceNames[0]
	}
	env.Must(t, target.Client.Create(t.Context(), review))
	return review.Status.Allowed
}
