package objects

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestChangesReachThePodsThatNeedThem(t *testing.T) {
	namespace, c2 := engaged(t)
	db := createSecret(t, namespace, "db", "old")
	place(t, env.Proxy(namespace, "web", needsSecret("db", false)), c2)
	setPassword(t, db, "new")
	waitForPassword(t, namespace, "db", "new")
}

func TestAChangeBeforeAPodIsBoundIsNotLost(t *testing.T) {
	namespace, c2 := engaged(t)
	db := createSecret(t, namespace, "db", "old")
	pod := env.Proxy(namespace, "web", needsSecret("db", false))
	env.Create(t, source, pod)
	mustEnsure(t, pod, c2)
	setPassword(t, db, "new")
	waitForSecrets(t, c2)
	env.ExpectEqual(t, "password before the pod is bound", "old", password(t, namespace, "db"))
	env.Bind(t, source, pod, c2.NodeName)
	waitForPassword(t, namespace, "db", "new")
}

func TestAnImmutableCopyIsReplaced(t *testing.T) {
	namespace, c2 := engaged(t)
	immutable := func(password string) *corev1.Secret {
		s := secret(namespace, "immutable", password)
		s.Immutable = ptr.To(true)
		return s
	}
	first := immutable("old")
	env.Create(t, source, first)
	place(t, env.Proxy(namespace, "web", needsSecret("immutable", false)), c2)
	env.Delete(t, source, first)
	env.Create(t, source, immutable("new"))
	waitForPassword(t, namespace, "immutable", "new")
}

func TestAdditionsOfATargetToAServiceAccountStay(t *testing.T) {
	namespace, c2 := engaged(t)
	robot := &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "robot")}
	robot.Annotations = map[string]string{v1alpha1.AnnotationFollow: ""}
	robot.AutomountServiceAccountToken = ptr.To(false)
	env.Create(t, source, robot)
	mustEnsure(t, env.Proxy(namespace, "first", needsAccount("robot")), c2)

	added := robot.DeepCopy()
	env.Change(t, target, added, func(added *corev1.ServiceAccount) {
		added.Annotations["eks.amazonaws.com/role-arn"] = "arn"
		added.Labels["azure.workload.identity/use"] = "true"
		added.Secrets = []corev1.ObjectReference{{Name: "token"}}
		added.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	})
	env.Change(t, source, robot, func(robot *corev1.ServiceAccount) {
		robot.AutomountServiceAccountToken = ptr.To(true)
	})
	clock.Step(21 * time.Second)
	got := robot.DeepCopy()
	env.Eventually(t, func(context.Context) error {
		mustEnsure(t, env.Proxy(namespace, "second", needsAccount("robot")), c2)
		if !*env.Get(t, target, got).AutomountServiceAccountToken {
			return errors.New("the change is not in the target")
		}
		return nil
	})

	delete(got.Annotations, v1alpha1.AnnotationNeededAt)
	env.ExpectEqual(t, "annotations", added.Annotations, got.Annotations)
	env.ExpectEqual(t, "labels", added.Labels, got.Labels)
	env.ExpectEqual(t, "secrets", added.Secrets, got.Secrets)
	env.ExpectEqual(t, "imagePullSecrets", added.ImagePullSecrets, got.ImagePullSecrets)
}

func TestATargetThatIsEngagedAgainGetsTheChangesOfTheMeantime(t *testing.T) {
	namespace, c2 := engaged(t)
	db := createSecret(t, namespace, "db", "old")
	createSecret(t, namespace, "same", "x")
	place(t, env.Proxy(namespace, "web", needsSecret("db", false), needsSecret("same", false)), c2)
	before := env.Get(t, target, secret(namespace, "same", "")).ResourceVersion
	c2.Disengage()
	setPassword(t, db, "new")
	c2.Engage(t, registry)
	waitForPassword(t, namespace, "db", "new")
	path := "PUT /api/v1/namespaces/" + namespace + "/secrets/same"
	env.Eventually(t, func(context.Context) error {
		if len(requests.With(path)) == 0 {
			return errors.New("the Secret that did not change was not written once more")
		}
		return nil
	})
	after := env.Get(t, target, secret(namespace, "same", "")).ResourceVersion
	env.ExpectEqual(t, "version of the Secret that did not change", before, after)
}

func TestATargetThatWasLostGetsTheChangesOfTheMeantime(t *testing.T) {
	namespace, c2 := engaged(t)
	db := createSecret(t, namespace, "db", "old")
	createSecret(t, namespace, "gone", "x")
	place(t, env.Proxy(namespace, "web", needsSecret("db", false), needsSecret("gone", false)), c2)
	waitForBound(t, c2)
	c2.Lose()
	setPassword(t, db, "new")
	waitForSecrets(t, c2)
	env.Delete(t, target, secret(namespace, "gone", ""))
	env.ExpectEqual(t, "password while the target is lost", "old", password(t, namespace, "db"))
	c2.Engage(t, registry)
	waitForPassword(t, namespace, "db", "new")
	waitForPassword(t, namespace, "gone", "x")
}

func TestACopyThatVanishedComesBack(t *testing.T) {
	namespace, c2 := engaged(t)
	createSecret(t, namespace, "db", "x")
	place(t, env.Proxy(namespace, "web", needsSecret("db", false)), c2)
	waitForBound(t, c2)
	env.Delete(t, target, secret(namespace, "db", ""))
	clock.Step(5 * time.Minute)
	mustEnsure(t, env.Proxy(namespace, "next", needsSecret("db", false)), c2)
	env.ExpectEqual(t, "password", "x", password(t, namespace, "db"))
}

func TestARefusedChangeIsReported(t *testing.T) {
	namespace, c2 := engaged(t)
	settings := configMap(namespace, "settings", "good")
	env.Create(t, source, settings)
	place(t, env.Proxy(namespace, "web", needsConfigMap("settings")), c2)
	waitForBound(t, c2)
	forbidValue(t, namespace, "bad")
	env.Change(t, source, settings, func(settings *corev1.ConfigMap) { settings.Data["a"] = "bad" })
	env.WaitForEvent(t, source, settings, reasonNotFollowed, `ConfigMap "settings" is refused there: `)
	env.ExpectEqual(t, "value of the copy", "good", value(t, namespace, "settings"))
}

func TestDeletingTheOriginalDeletesNothing(t *testing.T) {
	namespace, c2 := engaged(t)
	db := createSecret(t, namespace, "db", "x")
	pod := env.Proxy(namespace, "web", needsSecret("db", false))
	place(t, pod, c2)
	env.Delete(t, source, db)
	env.Eventually(t, func(context.Context) error {
		if !errors.As(missing(pod), new(*needs.MissingError)) {
			return errors.New("nothing is missing")
		}
		return nil
	})
	waitForPassword(t, namespace, "db", "x")
	expectMissing(t, ensure(t.Context(), env.Proxy(namespace, "next", needsSecret("db", false)), c2))
}

func TestSecretsThatAreKeptFollowTheirOriginals(t *testing.T) {
	namespace, c2 := engaged(t)
	refs := []needs.Ref{{Resource: needs.Secrets, Name: "early"}, {Resource: needs.Secrets, Name: "late"}}
	early := createSecret(t, namespace, "early", "old")
	env.Eventually(t, func(ctx context.Context) error {
		env.Must(t, keep(ctx, c2, "ingress", refs))
		if !env.Exists(t, target, secret(namespace, "early", "")) {
			return errors.New("the Secret is not copied")
		}
		return nil
	})
	setPassword(t, early, "new")
	waitForPassword(t, namespace, "early", "new")
	createSecret(t, namespace, "late", "x")
	waitForPassword(t, namespace, "late", "x")

	env.Must(t, keep(t.Context(), c2, "ingress", nil))
	env.Delete(t, target, secret(namespace, "early", "")) // The target's manager does the same.
	env.Must(t, keep(t.Context(), c2, "ingress", refs))
	waitForPassword(t, namespace, "early", "new")
	env.Must(t, keep(t.Context(), c2, "ingress", nil))
}
