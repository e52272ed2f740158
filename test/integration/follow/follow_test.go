package follow

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func TestWhatAPodNeedsIsThereOnceItWasBrought(t *testing.T) {
	s := newStory(t)
	settings := s.configMap("settings", "color", "blue")
	settings.BinaryData = map[string][]byte{"logo": {0, 1, 2}}
	settings.Labels = map[string]string{"app.kubernetes.io/instance": "shop"}
	settings.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
	s.create(shared.source, settings)
	certificate := s.secret("certificate", "")
	certificate.Type, certificate.Data = corev1.SecretTypeTLS, map[string][]byte{"tls.crt": []byte("crt"), "tls.key": []byte("key")}
	certificate.Immutable = ptr.To(true)
	s.create(shared.source, certificate)

	s.bring(s.pod("web", toConfigMap("settings"), toSecret("certificate", false)))

	gotSettings := there(s, s.configMap("settings", "", ""))
	s.expect("data", settings.Data, gotSettings.Data)
	s.expect("binary data", settings.BinaryData, gotSettings.BinaryData)
	s.expect("labels", map[string]string{v1alpha1.LabelParentClusterID: "source-id", v1alpha1.LabelParentClusterName: "c1"}, gotSettings.Labels)
	s.expect("annotations", map[string]string{v1alpha1.AnnotationFollowedBy: user}, gotSettings.Annotations)
	gotCertificate := there(s, s.secret("certificate", ""))
	s.expect("data", certificate.Data, gotCertificate.Data)
	s.expect("type", certificate.Type, gotCertificate.Type)
	s.expect("immutable", certificate.Immutable, gotCertificate.Immutable)
}

func TestChangesReachThePodsThatNeedThem(t *testing.T) {
	s := newStory(t)
	db := s.secret("db", "old")
	s.create(shared.source, db)
	s.place(s.pod("web", toSecret("db", false)))
	db.Data["password"] = []byte("new")
	s.update(db)
	s.hasPassword("db", "new")
}

func TestAChangeBetweenBringingAndBindingIsNotLost(t *testing.T) {
	s := newStory(t)
	db := s.secret("db", "old")
	s.create(shared.source, db)
	pod := s.pod("web", toSecret("db", false))
	s.create(shared.source, pod)
	s.bring(pod)
	db.Data["password"] = []byte("new")
	s.update(db)
	s.seen()
	s.expect("password before the pod is bound", "old", string(there(s, s.secret("db", "")).Data["password"]))
	s.bind(pod)
	s.hasPassword("db", "new")
}

func TestWhatIsImmutableIsReplaced(t *testing.T) {
	s := newStory(t)
	fixed := func(password string) *corev1.Secret {
		secret := s.secret("fixed", password)
		secret.Immutable = ptr.To(true)
		return secret
	}
	first := fixed("old")
	s.create(shared.source, first)
	s.place(s.pod("web", toSecret("fixed", false)))
	s.must(shared.source.Client.Delete(t.Context(), first))
	s.create(shared.source, fixed("new"))
	s.hasPassword("fixed", "new")
}

func TestWhatIsMissingKeepsThePodUntilItAppears(t *testing.T) {
	s := newStory(t)
	pod := s.pod("web", toSecret("db", false), toConfigMap("settings"))
	s.create(shared.source, pod)
	if err := shared.follower.Missing(pod); err != nil {
		t.Errorf("before anything is known: %v", err)
	}
	err := shared.follower.Bring(t.Context(), pod, s.target)
	want := fmt.Sprintf("ConfigMap %q, Secret %q do not exist in namespace %q: the pod cannot start without", "settings", "db", s.namespace)
	if !errors.As(err, new(*needs.MissingError)) || err.Error() != want {
		t.Errorf("Bring: got %v, want %s", err, want)
	}
	if err := shared.follower.Missing(pod); err == nil || err.Error() != want {
		t.Errorf("Missing: got %v, want %s", err, want)
	}
	s.create(shared.source, s.secret("db", "x"))
	s.create(shared.source, s.configMap("settings", "a", "b"))
	apiserver.Eventually(t, func(context.Context) error {
		if n := len(shared.appeared.of(s.namespace)); n != 2 {
			return fmt.Errorf("told %d times that something appeared", n)
		}
		return nil
	})
	for _, ref := range []string{"configmaps/settings", "secrets/db"} {
		s.expect("times that it was told", 1, len(shared.appeared.of(s.namespace+"/"+ref)))
	}
	s.must(shared.follower.Missing(pod))
	s.bring(pod)
}

func TestOptionalObjectsComeWhenTheyAppear(t *testing.T) {
	s := newStory(t)
	s.place(s.pod("web", toSecret("extra", true)))
	s.create(shared.source, s.secret("extra", "late"))
	s.hasPassword("extra", "late")
}

func TestAnOptionalObjectThatWasMadeJustNowIsBrought(t *testing.T) {
	s := newStory(t)
	pod := s.pod("web", toSecret("extra", true))
	s.bring(pod)
	s.create(shared.source, s.secret("extra", "new"))
	s.bring(pod) // The watch may not have told of it.
	s.expect("password", "new", string(there(s, s.secret("extra", "")).Data["password"]))
}

func TestWhatIsNotOursIsNeverTouched(t *testing.T) {
	s := newStory(t)
	s.bindSource("another-source")
	for name, test := range map[string]struct {
		name string
		mark func(*corev1.Secret)
	}{
		"an object of the target's users": {"theirs", func(*corev1.Secret) {}},
		"a copy of another source's": {"another", func(secret *corev1.Secret) {
			secret.Labels = map[string]string{v1alpha1.LabelParentClusterID: "another-id"}
			secret.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: "another-source"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &story{T: t, namespace: s.namespace, target: s.target}
			theirs := s.secret(test.name, "theirs")
			test.mark(theirs)
			s.create(shared.target, theirs)
			s.create(shared.source, s.secret(test.name, "ours"))
			pod := s.pod("web-"+test.name, toSecret(test.name, false))
			s.refused(shared.follower.Bring(t.Context(), pod, s.target),
				fmt.Sprintf("Secret %q exists there and does not come from this cluster, or was made under another user name of it: rename one, delete it, or use it as it is with the annotation %s: secrets/%[1]s",
					test.name, v1alpha1.AnnotationUseExisting))
			pod.Annotations[v1alpha1.AnnotationUseExisting] = "secrets/" + test.name
			s.bring(pod)
			s.expect("their Secret", theirs, there(s, s.secret(test.name, "")))
		})
	}
}

func TestARefusalSaysWhatTheTargetSays(t *testing.T) {
	s := newStory(t)
	s.create(shared.target, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": {}}},
	})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"}}
	s.must(shared.target.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, quota.Spec.Hard // Nobody counts here.
	s.must(shared.target.Client.Status().Update(t.Context(), quota))
	s.create(shared.source, s.secret("db", "hidden"))
	pod := s.pod("web", toSecret("db", false))
	apiserver.Eventually(t, func(ctx context.Context) error {
		err := shared.follower.Bring(ctx, pod, s.target)
		if err == nil {
			return errors.New("nothing is refused")
		}
		s.refused(err, `Secret "db" is refused there: secrets "db" is forbidden: exceeded quota`)
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("the error tells a secret: %v", err)
		}
		return nil
	})
}

func TestServiceAccounts(t *testing.T) {
	s := newStory(t)
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	}
	for _, name := range []string{"followed", "existing"} {
		a := account(name)
		a.Annotations = map[string]string{v1alpha1.AnnotationFollow: "", "eks.amazonaws.com/role-arn": "arn"}
		a.AutomountServiceAccountToken = ptr.To(false)
		a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		s.create(shared.source, a)
	}
	s.create(shared.source, account("plain"))
	theirs := account("existing")
	s.create(shared.target, theirs)

	for _, name := range []string{"followed", "existing", "plain", "nowhere"} {
		s.bring(s.pod(name, asAccount(name)))
	}

	followed := there(s, account("followed"))
	s.expect("automountServiceAccountToken", ptr.To(false), followed.AutomountServiceAccountToken)
	s.expect("imagePullSecrets", []corev1.LocalObjectReference{{Name: "registry"}}, followed.ImagePullSecrets)
	s.expect("annotations", map[string]string{v1alpha1.AnnotationFollowedBy: user}, followed.Annotations)
	s.expect("the target's own", theirs, there(s, account("existing")))
	if err := shared.target.Client.Get(t.Context(), client.ObjectKeyFromObject(account("plain")), account("plain")); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("an account that is not to be followed: %v", err)
	}
}

func TestWhatATargetPutIntoAServiceAccountStays(t *testing.T) {
	s := newStory(t)
	robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "robot", Annotations: map[string]string{v1alpha1.AnnotationFollow: ""}}}
	robot.AutomountServiceAccountToken = ptr.To(false)
	s.create(shared.source, robot)
	s.bring(s.pod("first", asAccount("robot")))

	added := there(s, robot.DeepCopy())
	added.Annotations["eks.amazonaws.com/role-arn"] = "arn"
	added.Labels["azure.workload.identity/use"] = "true"
	added.Secrets = []corev1.ObjectReference{{Name: "token"}}
	added.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	s.must(shared.target.Client.Update(t.Context(), added))
	robot.AutomountServiceAccountToken = ptr.To(true)
	s.update(robot)
	shared.clock.Step(21 * time.Second)
	apiserver.Eventually(t, func(context.Context) error {
		s.bring(s.pod("second", asAccount("robot")))
		if !*there(s, robot.DeepCopy()).AutomountServiceAccountToken {
			return errors.New("the change is not there")
		}
		return nil
	})

	got := there(s, robot.DeepCopy())
	delete(got.Annotations, v1alpha1.AnnotationNeededAt)
	s.expect("annotations", added.Annotations, got.Annotations)
	s.expect("labels", added.Labels, got.Labels)
	s.expect("secrets", added.Secrets, got.Secrets)
	s.expect("imagePullSecrets", added.ImagePullSecrets, got.ImagePullSecrets)
}

func TestManyPodsAtOnce(t *testing.T) {
	const pods = 200
	s := newStory(t)
	s.create(shared.source, s.configMap("shared", "a", "b"))
	secret := func(i int) *corev1.Secret { return s.secret(fmt.Sprintf("own-%d", i), fmt.Sprint(i)) }
	var group errgroup.Group
	group.SetLimit(50)
	for i := range pods {
		group.Go(func() error { return shared.source.Client.Create(t.Context(), secret(i)) })
	}
	s.must(group.Wait())
	group.SetLimit(-1)
	for i := range pods {
		group.Go(func() error {
			own := secret(i)
			if err := shared.follower.Bring(t.Context(), s.pod(own.Name, toSecret(own.Name, false), toConfigMap("shared")), s.target); err != nil {
				return err
			}
			return shared.target.Client.Get(t.Context(), client.ObjectKeyFromObject(own), own) // before the pod would be created
		})
	}
	s.must(group.Wait())
	path := "/api/v1/namespaces/" + s.namespace + "/"
	s.expect("writes of the ConfigMap", []string{"POST " + path + "configmaps?fieldManager=multicluster-scheduler"}, shared.requests.of(path+"configmaps"))
	s.expect("number of writes of Secrets", pods, len(shared.requests.of(path+"secrets")))
}

func TestCopiesAreNotWrittenAgainForEveryPod(t *testing.T) {
	s := newStory(t)
	s.create(shared.source, s.secret("db", "x"))
	requests := func() int { return len(shared.requests.of("/namespaces/" + s.namespace + "/secrets")) }
	neededAt := func() string { return there(s, s.secret("db", "")).Annotations[v1alpha1.AnnotationNeededAt] }

	s.bring(s.pod("first", toSecret("db", false)))
	s.bring(s.pod("second", toSecret("db", false)))
	s.expect("requests for two pods in a row", 1, requests())

	shared.clock.Step(21 * time.Second)
	third := s.pod("third", toSecret("db", false))
	s.create(shared.source, third)
	s.bring(third)
	s.expect("when a pod needs it that may be about to be removed", shared.clock.Now().UTC().Format(time.RFC3339), neededAt())

	s.bind(third)
	s.known()
	before := requests()
	shared.clock.Step(21 * time.Second)
	s.bring(s.pod("fourth", toSecret("db", false)))
	s.expect("requests for another pod, while one is there", before, requests())
}

func TestATargetThatIsEngagedAgainGetsWhatChangedMeanwhile(t *testing.T) {
	s := newStory(t)
	db, same := s.secret("db", "old"), s.secret("same", "x")
	s.create(shared.source, db)
	s.create(shared.source, same)
	s.place(s.pod("web", toSecret("db", false), toSecret("same", false)))
	before := there(s, s.secret("same", "")).ResourceVersion
	s.disengage()
	db.Data["password"] = []byte("new")
	s.update(db)
	s.engage()
	s.hasPassword("db", "new")
	path := "PUT /api/v1/namespaces/" + s.namespace + "/secrets/same"
	apiserver.Eventually(t, func(context.Context) error {
		if len(shared.requests.of(path)) == 0 {
			return errors.New("what did not change was not written once more")
		}
		return nil
	})
	s.expect("version of what did not change", before, there(s, s.secret("same", "")).ResourceVersion)
}

func TestATargetThatIsReachableAgainGetsWhatChangedMeanwhile(t *testing.T) {
	s := newStory(t)
	db, gone := s.secret("db", "old"), s.secret("gone", "x")
	s.create(shared.source, db)
	s.create(shared.source, gone)
	s.place(s.pod("web", toSecret("db", false), toSecret("gone", false)))
	s.known()
	shared.registry.SetReachable(s.target, false)
	db.Data["password"] = []byte("new")
	s.update(db)
	s.seen()
	s.must(shared.target.Client.Delete(t.Context(), s.secret("gone", "")))
	s.expect("password while the target cannot be reached", "old", string(there(s, s.secret("db", "")).Data["password"]))
	shared.registry.SetReachable(s.target, true)
	s.hasPassword("db", "new")
	s.hasPassword("gone", "x")
}

func TestACopyThatVanishedComesBack(t *testing.T) {
	s := newStory(t)
	s.create(shared.source, s.secret("db", "x"))
	s.place(s.pod("web", toSecret("db", false)))
	s.known()
	s.must(shared.target.Client.Delete(t.Context(), s.secret("db", "")))
	shared.clock.Step(5 * time.Minute)
	s.bring(s.pod("next", toSecret("db", false)))
	s.expect("password", "x", string(there(s, s.secret("db", "")).Data["password"]))
}

func TestARefusedChangeIsTold(t *testing.T) {
	s := newStory(t)
	settings := s.configMap("settings", "a", "good")
	s.create(shared.source, settings)
	s.place(s.pod("web", toConfigMap("settings")))
	s.known()
	s.forbidValue("bad")
	settings.Data["a"] = "bad"
	s.update(settings)
	apiserver.Eventually(t, func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		s.must(shared.source.Client.List(ctx, list, client.InNamespace(s.namespace)))
		for i := range list.Items {
			event := &list.Items[i]
			if event.Reason == follow.ReasonNotFollowed && event.Regarding.UID == settings.UID && strings.Contains(event.Note, `ConfigMap "settings" is refused there: `) {
				return nil
			}
		}
		return fmt.Errorf("nobody is told: %v", list.Items)
	})
	s.expect("what is there", "good", there(s, s.configMap("settings", "", "")).Data["a"])
}

func TestDeletingTheOriginalDeletesNothing(t *testing.T) {
	s := newStory(t)
	db := s.secret("db", "x")
	s.create(shared.source, db)
	pod := s.pod("web", toSecret("db", false))
	s.place(pod)
	s.must(shared.source.Client.Delete(t.Context(), db))
	s.eventuallyMissing(shared.follower, pod)
	s.hasPassword("db", "x")
	if err := shared.follower.Bring(t.Context(), s.pod("next", toSecret("db", false)), s.target); !errors.As(err, new(*needs.MissingError)) {
		t.Errorf("the next pod: got %v, want that the Secret is missing", err)
	}
}

func TestATargetThatIsTheSourceItselfHasEverything(t *testing.T) {
	s := newStory(t)
	itself := newTarget(s, types.NamespacedName{Namespace: s.namespace, Name: "self"}, shared.source.Config)
	itself.Itself = true
	s.must(shared.follower.Engaged(t.Context(), itself))
	pod := s.pod("web", toSecret("db", false))
	if err := shared.follower.Bring(t.Context(), pod, itself); !errors.As(err, new(*needs.MissingError)) {
		t.Errorf("got %v, want that the Secret is missing", err)
	}
	db := s.secret("db", "x")
	s.create(shared.source, db)
	apiserver.Eventually(t, func(ctx context.Context) error { return shared.follower.Bring(ctx, pod, itself) })
	found := s.secret("db", "")
	s.must(shared.source.Client.Get(t.Context(), client.ObjectKeyFromObject(db), found))
	s.expect("the Secret", db, found)
}

func TestATargetThatIsNotEngagedIsNamed(t *testing.T) {
	s := newStory(t)
	s.create(shared.source, s.secret("db", "x"))
	pod := s.pod("web", toSecret("db", false))
	s.disengage()
	apiserver.Eventually(t, func(ctx context.Context) error {
		if err := shared.follower.Bring(ctx, pod, s.target); err == nil || !strings.Contains(err.Error(), "is not connected any more") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}

func TestAMissingRightIsNamed(t *testing.T) {
	s := newStory(t)
	narrow, err := shared.source.User("narrow-" + s.namespace)
	s.must(err)
	f, err := newFollower(t.Context(), narrow)
	s.must(err)
	s.must(f.Engaged(t.Context(), s.target))
	s.create(shared.source, s.secret("db", "x"))
	pod := s.pod("web", toSecret("db", false))
	err = f.Bring(t.Context(), pod, s.target)
	want := fmt.Sprintf("this cluster's manager must have the rights to get, list and watch secrets in namespace %q: ", s.namespace)
	if err == nil || !strings.HasPrefix(err.Error(), want) || errors.As(err, new(*needs.RefusedError)) {
		t.Errorf("got %v, want %s", err, want)
	}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}}}
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: "narrow"}
	s.create(shared.source, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	s.create(shared.source, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "narrow"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "narrow-" + s.namespace}},
	})
	apiserver.Eventually(t, func(ctx context.Context) error { return f.Bring(ctx, pod, s.target) })
	s.hasPassword("db", "x")
}

func TestWhatIsHeldIsKeptAsItIsInTheSource(t *testing.T) {
	s := newStory(t)
	refs := []needs.Ref{{Resource: needs.Secrets, Name: "early"}, {Resource: needs.Secrets, Name: "late"}}
	early := s.secret("early", "old")
	s.create(shared.source, early)
	hold := func(refs []needs.Ref) error {
		return shared.follower.Hold(t.Context(), s.target, s.namespace, "ingress", refs)
	}
	apiserver.Eventually(t, func(context.Context) error {
		s.must(hold(refs))
		return shared.target.Client.Get(t.Context(), client.ObjectKeyFromObject(early), s.secret("early", ""))
	})
	early.Data["password"] = []byte("new")
	s.update(early)
	s.hasPassword("early", "new")
	s.create(shared.source, s.secret("late", "x"))
	s.hasPassword("late", "x")

	s.must(hold(nil))
	s.must(shared.target.Client.Delete(t.Context(), s.secret("early", ""))) // as the target's manager does
	s.must(hold(refs))
	s.hasPassword("early", "new")
	s.must(hold(nil))
}
