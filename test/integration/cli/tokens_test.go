package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// renewals returns the names of the roles and bindings in the release's namespace of c2 that let sources renew tokens.
func renewals(t *testing.T) []string {
	t.Helper()
	ours := []client.ListOption{
		client.InNamespace(env.ReleaseNamespace), client.MatchingLabels{cluster.LabelManagedBy: cluster.FieldOwner},
	}
	roles, bindings := &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	env.Must(t, c2.Client.List(t.Context(), roles, ours...))
	env.Must(t, c2.Client.List(t.Context(), bindings, ours...))
	var names []string
	for i := range roles.Items {
		names = append(names, roles.Items[i].Name)
	}
	for i := range bindings.Items {
		names = append(names, bindings.Items[i].Name)
	}
	return names
}

// requestToken makes a token of a service account of c2 with the kubeconfig of c1's Secret.
func requestToken(ctx context.Context, t *testing.T, name string) (time.Duration, error) {
	t.Helper()
	asSource, err := login(ctx, secretOfC2())
	env.Must(t, err)
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)},
	}
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, name)}
	err = asSource.SubResource("token").Create(ctx, account, request)
	return request.Status.ExpirationTimestamp.Sub(clock.RealClock{}.Now()), err
}

// expectTokenOfADay fails the test unless c1 has a token that expires, and that can make tokens for its account only.
func expectTokenOfADay(t *testing.T) {
	t.Helper()
	secret := env.Get(t, c1, &corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, "c2")})
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["config"])
	env.Must(t, err)
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: config.BearerToken}}
	env.Must(t, c2.Client.Create(t.Context(), review))
	env.ExpectEqual(t, "user", env.ServiceAccountUser(env.ReleaseNamespace, "multicluster-source-c1"),
		review.Status.User.Username)
	if n := len(tokens(t)); n != 0 {
		t.Errorf("there are %d tokens without end", n)
	}
	env.Eventually(t, func(ctx context.Context) error {
		if left, err := requestToken(ctx, t, "multicluster-source-c1"); err != nil || left > 11*time.Minute {
			return fmt.Errorf("the source got a token for %s: %w", left, err)
		}
		return nil
	})
	env.Ensure(t, c2, &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, "another")})
	if _, err := requestToken(t.Context(), t, "another"); !apierrors.IsForbidden(err) {
		t.Errorf("the source makes tokens of other accounts: %v", err)
	}
}

func TestRenewServesARestoredSource(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	mustFail(t, "run this without --renew", path, "connect", "c2", "--target-context", "c2", "--renew")
	mustRun(t, path, "connect", "c2", "--target-context", "c2")
	t.Cleanup(func() { command(t, path, "disconnect", "c2", "--target-context", "c2") })
	secret := &corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, "c2")}
	env.Change(t, c1, secret, func(s *corev1.Secret) {
		config, err := clientcmd.Load(s.Data["config"])
		env.Must(t, err)
		config.AuthInfos["source"].Token = "expired"
		config.Clusters["target"].TLSServerName = "localhost"
		s.Data["config"], err = clientcmd.Write(*config)
		env.Must(t, err)
		s.Data["other"] = []byte("kept")
	})
	out := mustRun(t, path, "connect", "c2", "--target-context", "c2", "--renew")
	expectSays(t, out, "Secret admiralty/c2 has the new token", "virtual node admiralty-c2 is ready")
	after := env.Get(t, c1, secret)
	config, err := clientcmd.Load(after.Data["config"])
	env.Must(t, err)
	if config.Clusters["target"].TLSServerName != "localhost" || string(after.Data["other"]) != "kept" {
		t.Error("something else than the token changed")
	}
	_, err = requestToken(t.Context(), t, "multicluster-source-c1")
	env.Must(t, err)
}

func TestConnectWarnsIfTheManagerDoesNotRenew(t *testing.T) {
	reports = false
	t.Cleanup(func() { reports = true })
	play(t)
	path := kubeconfig(t, c1, c2)
	code, _, errOut := command(t, path, "connect", "old", "--target-context", "c2")
	if code != 0 || !strings.Contains(errOut, "does not say when the token expires") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	mustRun(t, path, "disconnect", "old", "--target-context", "c2")
}

func TestRevokeTakesEverything(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	mustRun(t, path, "connect", "c2", "--target-context", "c2")
	mustRun(t, path, "connect", "again", "--target-context", "c2")
	asSource, err := login(t.Context(), secretOfC2())
	env.Must(t, err)
	byHand := &rbacv1.RoleBinding{
		ObjectMeta: env.Meta(metav1.NamespaceDefault, "by-hand"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: env.SourceRole},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: env.ReleaseNamespace, Name: "multicluster-source-c1",
		}},
	}
	env.CreateForTest(t, c2, byHand)
	env.Must(t, asSource.List(t.Context(), &v1alpha1.PodChaperonList{}, client.InNamespace(metav1.NamespaceDefault)))

	source := env.Get(t, c2, &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1"}})
	mustFail(t, "there is no ClusterSource c9", path,
		"disconnect", "--revoke", "--target-context", "c2", "--source-name", "c9")
	out := mustRun(t, path, "disconnect", "--revoke", "--target-context", "c2", "--source-name", "c1")
	expectSays(t, out, "ClusterSource c1 deleted", "ServiceAccount admiralty/multicluster-source-c1 deleted",
		"RoleBinding default/by-hand kept", "within 10 seconds")
	env.Eventually(t, func(ctx context.Context) error {
		if err := asSource.List(ctx, &v1alpha1.PodChaperonList{}); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the token is still valid: %w", err)
		}
		return nil
	})
	if objects := renewals(t); len(objects) != 0 {
		t.Errorf("the right to renew tokens remains: %v", objects)
	}
	expectSays(t, out, "ClusterRoleBinding multicluster-source-identity:c1 deleted",
		"RoleBinding default/multicluster-clustersource:c1 deleted")
	env.Eventually(t, func(ctx context.Context) error { return hasNoBindings(ctx, source.UID) })
	if !env.Exists(t, c1, &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}) {
		t.Error("without NAME, the source was touched")
	}
	for _, name := range []string{"c2", "again"} {
		mustRun(t, path, "disconnect", name, "--target-context", "c2")
	}
}

// hasNoBindings returns an error if the manager's bindings of the account of c1 remain. The manager may make some again
// before it sees that the ClusterSource is gone. Those belong to the old one, and are left for the garbage collector,
// which does not run here.
func hasNoBindings(ctx context.Context, revoked types.UID) error {
	bindings, clusterBindings := &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}
	if err := errors.Join(c2.Client.List(ctx, bindings), c2.Client.List(ctx, clusterBindings)); err != nil {
		return err
	}
	check := func(o client.Object, subjects []rbacv1.Subject) error {
		owners := o.GetOwnerReferences()
		if o.GetName() == "by-hand" ||
			len(owners) > 0 && (owners[0].UID == revoked || owners[0].Kind == "SourceGrant") {
			return nil
		}
		for _, s := range subjects {
			if s.Namespace == env.ReleaseNamespace && s.Name == "multicluster-source-c1" {
				return fmt.Errorf("binding %q remains", o.GetName())
			}
		}
		return nil
	}
	var problems []error
	for i := range bindings.Items {
		problems = append(problems, check(&bindings.Items[i], bindings.Items[i].Subjects))
	}
	for i := range clusterBindings.Items {
		problems = append(problems, check(&clusterBindings.Items[i], clusterBindings.Items[i].Subjects))
	}
	return errors.Join(problems...)
}

func TestRevokeWithANameDisconnects(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	mustRun(t, path, "connect", "c2", "--target-context", "c2")
	chaperon := chaperonOf(t, "c2")
	mustRun(t, path, "disconnect", "c2", "--target-context", "c2", "--revoke")
	env.ExpectEqual(t, "the ClusterTarget exists", false,
		env.Exists(t, c1, &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}))
	if env.Exists(t, c2, chaperon) && chaperon.DeletionTimestamp.IsZero() {
		t.Error("the delegates of the connection run on")
	}
	mustFail(t, "--revoke takes rights in the target", path, "disconnect", "c2", "--revoke")
	mustFail(t, "Give --source-name", path, "disconnect", "--revoke", "--target-context", "c2")
}
