package objects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestEverythingThatAPodNeedsIsCopied(t *testing.T) {
	namespace, c2 := engaged(t)
	settings := configMap(namespace, "settings", "blue")
	settings.BinaryData = map[string][]byte{"logo": {0, 1, 2}}
	settings.Labels = map[string]string{"app.kubernetes.io/instance": "shop"}
	settings.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	certificate := secret(namespace, "certificate", "")
	certificate.Type, certificate.Immutable = corev1.SecretTypeTLS, ptr.To(true)
	certificate.Data = map[string][]byte{"tls.crt": []byte("crt"), "tls.key": []byte("key")}
	env.Create(t, source, settings, certificate)

	mustEnsure(t, env.Proxy(namespace, "web", needsConfigMap("settings"), needsSecret("certificate", false)), c2)

	gotSettings := env.Get(t, target, configMap(namespace, "settings", ""))
	env.ExpectEqual(t, "data", settings.Data, gotSettings.Data)
	env.ExpectEqual(t, "binary data", settings.BinaryData, gotSettings.BinaryData)
	wantLabels := map[string]string{v1alpha1.LabelParentClusterID: sourceID, v1alpha1.LabelParentClusterName: "c1"}
	env.ExpectEqual(t, "labels", wantLabels, gotSettings.Labels)
	wantAnnotations := map[string]string{v1alpha1.AnnotationFollowedBy: sourceUser}
	env.ExpectEqual(t, "annotations", wantAnnotations, gotSettings.Annotations)
	gotCertificate := env.Get(t, target, secret(namespace, "certificate", ""))
	env.ExpectEqual(t, "data", certificate.Data, gotCertificate.Data)
	env.ExpectEqual(t, "type", certificate.Type, gotCertificate.Type)
	env.ExpectEqual(t, "immutable", certificate.Immutable, gotCertificate.Immutable)
}

func TestMissingObjectsKeepAPodUntilTheyAppear(t *testing.T) {
	namespace, c2 := engaged(t)
	pod := env.Proxy(namespace, "web", needsSecret("db", false), needsConfigMap("settings"))
	env.Create(t, source, pod)
	if err := missing(pod); err != nil {
		t.Errorf("before anything is known: %v", err)
	}
	err := ensure(t.Context(), pod, c2)
	want := fmt.Sprintf("ConfigMap %q, Secret %q do not exist in namespace %q: the pod cannot start without",
		"settings", "db", namespace)
	expectMissing(t, err)
	if err == nil || err.Error() != want {
		t.Errorf("ensuring: got %v, want %s", err, want)
	}
	if err := missing(pod); err == nil || err.Error() != want {
		t.Errorf("missing: got %v, want %s", err, want)
	}
	env.Create(t, source, secret(namespace, "db", "x"), configMap(namespace, "settings", "b"))
	env.Eventually(t, func(context.Context) error {
		if n := len(appeared.With(namespace)); n != 2 {
			return fmt.Errorf("reported %d times that something appeared", n)
		}
		return nil
	})
	for _, ref := range []string{"configmaps/settings", "secrets/db"} {
		env.ExpectEqual(t, "number of reports about "+ref, 1, len(appeared.With(namespace+"/"+ref)))
	}
	env.Must(t, missing(pod))
	mustEnsure(t, pod, c2)
}

func TestAnOptionalObjectIsCopiedWhenItAppears(t *testing.T) {
	namespace, c2 := engaged(t)
	place(t, env.Proxy(namespace, "web", needsSecret("extra", true)), c2)
	createSecret(t, namespace, "extra", "late")
	waitForPassword(t, namespace, "extra", "late")
}

func TestAnOptionalObjectThatWasCreatedJustNowIsCopied(t *testing.T) {
	namespace, c2 := engaged(t)
	pod := env.Proxy(namespace, "web", needsSecret("extra", true))
	mustEnsure(t, pod, c2)
	createSecret(t, namespace, "extra", "new")
	mustEnsure(t, pod, c2) // The watch may not have reported it.
	env.ExpectEqual(t, "password", "new", password(t, namespace, "extra"))
}

func TestAnObjectOfSomebodyElseIsNeverTouched(t *testing.T) {
	namespace, c2 := engaged(t)
	bindSource(t, namespace, "another-source")
	for name, test := range map[string]struct {
		name string
		mark func(*corev1.Secret)
	}{
		"an object of the target's users": {"theirs", func(*corev1.Secret) {}},
		"a copy of another source's object": {"another", func(secret *corev1.Secret) {
			secret.Labels = map[string]string{v1alpha1.LabelParentClusterID: "another-id"}
			secret.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: "another-source"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := secret(namespace, test.name, "theirs")
			test.mark(theirs)
			// Nobody but the user itself may set the mark.
			another := env.ClientFor(t, target.Impersonate("another-source", "system:masters"))
			env.Must(t, another.Create(t.Context(), theirs))
			createSecret(t, namespace, test.name, "ours")
			pod := env.Proxy(namespace, "web-"+test.name, needsSecret(test.name, false))
			expectRefused(t, ensure(t.Context(), pod, c2), fmt.Sprintf("Secret %q exists there and does not come from "+
				"this cluster, was made under another user name of it, or has lost the annotation %s: rename one, "+
				"delete it, or use it as it is with the annotation %s: secrets/%[1]s",
				test.name, v1alpha1.AnnotationFollowedBy, v1alpha1.AnnotationUseExisting))
			pod.Annotations[v1alpha1.AnnotationUseExisting] = "secrets/" + test.name
			mustEnsure(t, pod, c2)
			env.ExpectEqual(t, "their Secret", theirs, env.Get(t, target, secret(namespace, test.name, "")))
		})
	}
}

func TestARefusalGivesTheTargetsReason(t *testing.T) {
	namespace, c2 := engaged(t)
	env.ForbidAll(t, target, namespace, "count/secrets")
	createSecret(t, namespace, "db", "hidden")
	pod := env.Proxy(namespace, "web", needsSecret("db", false))
	env.Eventually(t, func(ctx context.Context) error {
		err := ensure(ctx, pod, c2)
		if err == nil {
			return errors.New("nothing is refused")
		}
		expectRefused(t, err, `Secret "db" is refused there: secrets "db" is forbidden: exceeded quota`)
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("the error reveals a secret: %v", err)
		}
		return nil
	})
}

func TestOnlyServiceAccountsThatAreToBeFollowedAreCopied(t *testing.T) {
	namespace, c2 := engaged(t)
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, name)}
	}
	registry := []corev1.LocalObjectReference{{Name: "registry"}}
	for _, name := range []string{"followed", "existing"} {
		a := account(name)
		a.Annotations = map[string]string{v1alpha1.AnnotationFollow: "", "eks.amazonaws.com/role-arn": "arn"}
		a.AutomountServiceAccountToken, a.ImagePullSecrets = ptr.To(false), registry
		env.Create(t, source, a)
	}
	env.Create(t, source, account("plain"))
	theirs := account("existing")
	env.Create(t, target, theirs)

	for _, name := range []string{"followed", "existing", "plain", "nowhere"} {
		mustEnsure(t, env.Proxy(namespace, name, needsAccount(name)), c2)
	}

	followed := env.Get(t, target, account("followed"))
	env.ExpectEqual(t, "automountServiceAccountToken", ptr.To(false), followed.AutomountServiceAccountToken)
	env.ExpectEqual(t, "imagePullSecrets", registry, followed.ImagePullSecrets)
	wantAnnotations := map[string]string{v1alpha1.AnnotationFollowedBy: sourceUser}
	env.ExpectEqual(t, "annotations", wantAnnotations, followed.Annotations)
	env.ExpectEqual(t, "the target's own service account", theirs, env.Get(t, target, account("existing")))
	if env.Exists(t, target, account("plain")) {
		t.Error("an account that is not to be followed was copied")
	}
}

func TestManyPodsAtOnceCostOneWriteForEachObject(t *testing.T) {
	const pods = 200
	namespace, c2 := engaged(t)
	env.Create(t, source, configMap(namespace, "shared", "b"))
	own := func(i int) *corev1.Secret { return secret(namespace, fmt.Sprintf("own-%d", i), fmt.Sprint(i)) }
	var group errgroup.Group
	group.SetLimit(50)
	for i := range pods {
		group.Go(func() error { return source.Client.Create(t.Context(), own(i)) })
	}
	env.Must(t, group.Wait())
	group.SetLimit(-1)
	for i := range pods {
		group.Go(func() error {
			secret := own(i)
			pod := env.Proxy(namespace, secret.Name, needsSecret(secret.Name, false), needsConfigMap("shared"))
			if err := ensure(t.Context(), pod, c2); err != nil {
				return err
			}
			// Before the pod would be created, the copy exists.
			return target.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
		})
	}
	env.Must(t, group.Wait())
	path := "/api/v1/namespaces/" + namespace + "/"
	wantRequests := []string{"POST " + path + "configmaps?fieldManager=multicluster-scheduler"}
	env.ExpectEqual(t, "writes of the ConfigMap", wantRequests, requests.With(path+"configmaps"))
	env.ExpectEqual(t, "number of writes of Secrets", pods, len(requests.With(path+"secrets")))
}

func TestCopiesAreNotWrittenAgainForEveryPod(t *testing.T) {
	namespace, c2 := engaged(t)
	createSecret(t, namespace, "db", "x")
	pod := func(name string) *corev1.Pod { return env.Proxy(namespace, name, needsSecret("db", false)) }
	writes := func() int { return len(requests.With("/namespaces/" + namespace + "/secrets")) }

	mustEnsure(t, pod("first"), c2)
	mustEnsure(t, pod("second"), c2)
	env.ExpectEqual(t, "requests for two pods in a row", 1, writes())

	clock.Step(21 * time.Second)
	third := pod("third")
	env.Create(t, source, third)
	mustEnsure(t, third, c2)
	neededAt := env.Get(t, target, secret(namespace, "db", "")).Annotations[v1alpha1.AnnotationNeededAt]
	env.ExpectEqual(t, "when a pod needs a copy that may be about to be removed",
		clock.Now().UTC().Format(time.RFC3339), neededAt)

	env.Bind(t, source, third, c2.NodeName)
	waitForBound(t, c2)
	before := writes()
	clock.Step(21 * time.Second)
	mustEnsure(t, pod("fourth"), c2)
	env.ExpectEqual(t, "requests for another pod, while one is bound", before, writes())
}

func TestATargetThatIsTheSourceItselfHasEverything(t *testing.T) {
	namespace, _ := engaged(t)
	itself := env.NewTarget(source, types.NamespacedName{Namespace: namespace, Name: "self"})
	itself.Customize = func(e *engage.Target) { e.Itself = true }
	itself.Engage(t, registry)
	pod := env.Proxy(namespace, "web", needsSecret("db", false))
	expectMissing(t, ensure(t.Context(), pod, itself))
	db := createSecret(t, namespace, "db", "x")
	env.Eventually(t, func(ctx context.Context) error { return ensure(ctx, pod, itself) })
	env.ExpectEqual(t, "the Secret", db, env.Get(t, source, secret(namespace, "db", "")))
}

func TestATargetThatIsNotEngagedIsNamed(t *testing.T) {
	namespace, c2 := engaged(t)
	createSecret(t, namespace, "db", "x")
	pod := env.Proxy(namespace, "web", needsSecret("db", false))
	c2.Disengage()
	env.Eventually(t, func(ctx context.Context) error {
		if err := ensure(ctx, pod, c2); err == nil || !strings.Contains(err.Error(), "is not connected any more") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}

func TestARightThatTheManagerLacksIsNamed(t *testing.T) {
	namespace, c2 := engaged(t)
	user := "narrow-" + namespace
	source.Grant(t, user, "", env.Rule("", []string{"namespaces"}, "list", "watch"))
	narrow := newFollower(t, source.User(t, user))
	env.Must(t, narrow.Engaged(t.Context(), c2.Target))
	createSecret(t, namespace, "db", "x")
	pod := env.Proxy(namespace, "web", needsSecret("db", false))
	err := ensureBy(t.Context(), narrow, pod, c2)
	want := fmt.Sprintf("this cluster's manager must have the rights to get, list and watch secrets in namespace %q: ",
		namespace)
	if err == nil || !strings.HasPrefix(err.Error(), want) || errors.As(err, new(*needs.RefusedError)) {
		t.Errorf("got %v, want %s", err, want)
	}
	source.Grant(t, user, namespace, env.Rule("", []string{"secrets"}, "get", "list", "watch"))
	env.Eventually(t, func(ctx context.Context) error {
		clock.Step(time.Second) // The watch is tried again later each time.
		return ensureBy(ctx, narrow, pod, c2)
	})
	waitForPassword(t, namespace, "db", "x")
}
