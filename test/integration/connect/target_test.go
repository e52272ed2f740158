package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestABrokenTargetSaysWhyAndConnectsOnceMended(t *testing.T) {
	for name, test := range map[string]struct {
		data         map[string][]byte // of the Secret
		login        *rest.Config      // in the Secret
		reason, text string
	}{
		"the Secret is missing": {reason: v1alpha1.ReasonSecretNotFound, text: "does not exist; create it"},
		"the Secret has another key": {
			data:   map[string][]byte{"kubeconfig": nil},
			reason: v1alpha1.ReasonSecretKeyNotFound, text: "but kubeconfig",
		},
		"the Secret has no kubeconfig": {
			data:   map[string][]byte{"config": []byte("hello")},
			reason: v1alpha1.ReasonInvalidKubeconfig, text: "not a kubeconfig",
		},
		"the token has expired": {
			login: wrongToken(), reason: v1alpha1.ReasonUnauthorized, text: "--target-context CONTEXT --renew",
		},
		"the user has no rights": {login: c2Nobody, reason: v1alpha1.ReasonForbidden, text: "ClusterSource"},
		"nobody listens": {
			login: nobodyListens(), reason: v1alpha1.ReasonUnreachable, text: "connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := env.Namespace(t, nil, c1)
			good := kubeconfigSecret(t, namespace, c2Alice)
			secret := good.DeepCopy()
			if secret.Data = test.data; test.login != nil {
				secret.Data = map[string][]byte{"config": kubeconfigFor(t, test.login)}
			}
			missing := secret.Data == nil
			if !missing {
				env.CreateForTest(t, c1, secret)
			}
			key := createClusterTarget(t, namespace)
			waitForCondition(t, key, v1alpha1.ConditionConnected, test.reason, test.text)
			waitForCondition(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNotConnected, "")
			status := corev1.ConditionUnknown // Nothing says that its delegates have ended.
			if test.reason == v1alpha1.ReasonUnreachable {
				status = corev1.ConditionFalse
			}
			waitForNode(t, key, ready(status))

			if missing {
				env.CreateForTest(t, c1, good)
			} else {
				env.Change(t, c1, secret, func(secret *corev1.Secret) { secret.Data = good.Data })
			}
			waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, c2.Config.Host)
			waitReady(t, key)
			for _, reason := range []string{test.reason, v1alpha1.ReasonConnected} {
				env.WaitForEvent(t, c1, clusterTarget(key), reason, "")
			}
		})
	}
}

func wrongToken() *rest.Config {
	login := rest.AnonymousClientConfig(c2.Config)
	login.BearerToken = "expired"
	return login
}

func nobodyListens() *rest.Config {
	login := rest.CopyConfig(c2Alice)
	login.Host = "https://127.0.0.1:1"
	return login
}

func TestATargetConnectsWhileAnotherHangs(t *testing.T) {
	t.Parallel()
	hanging := newWire(t, c2Alice)
	hanging.sever()
	t.Cleanup(hanging.mend)
	namespace := env.Namespace(t, nil, c1)
	env.CreateForTest(t, c1, kubeconfigSecret(t, namespace, hanging.login))
	hangs := createClusterTarget(t, namespace)
	waitForCondition(t, hangs, v1alpha1.ConditionConnected, v1alpha1.ReasonConnecting, "")

	connect(t, c2Alice)
	waitForCondition(t, hangs, v1alpha1.ConditionConnected, v1alpha1.ReasonUnreachable, "too long")
}

func TestASourceIsNotItsOwnTargetUntilItPublishesASummary(t *testing.T) {
	key := types.NamespacedName{Name: "self"}
	self := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	self.Spec.Self = true
	env.Create(t, c1, self)
	waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonNotInstalled, "install multicluster-scheduler")
	env.Create(t, c1, &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}})
	waitReady(t, key)
	if engaged := engagedTarget(t, key); !engaged.Itself {
		t.Errorf("the target is not known to be the source itself: %v", engaged)
	}
}

func TestANamespacedTargetSeesItsNamespaceOnly(t *testing.T) {
	namespace, other := env.Namespace(t, nil, c1, c2), env.Namespace(t, nil, c2)
	env.CreateForTest(t, c1, kubeconfigSecret(t, namespace, c2Alice))
	key := connectTarget(t, namespace, v1alpha1.PlacementPolicy{})
	if engaged := engagedTarget(t, key); engaged.Itself {
		t.Errorf("another cluster is taken for the source: %v", engaged)
	}
	createChaperon(t, key, other, "unseen")
	createChaperon(t, types.NamespacedName{Name: "another"}, namespace, "anothers")
	waitForCache(t, key, createChaperon(t, key, namespace, "seen"))
}

// holdsOnly returns an error unless the cache of a target holds one PodChaperon, stripped and indexed.
func holdsOnly(ctx context.Context, key types.NamespacedName, want *v1alpha1.PodChaperon) error {
	target, ok := registry.ByKey(key)
	if !ok {
		return fmt.Errorf("%s is not engaged", key)
	}
	list := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) != 1 || client.ObjectKeyFromObject(&list.Items[0]) != client.ObjectKeyFromObject(want) {
		return fmt.Errorf("%d PodChaperons are seen", len(list.Items))
	}
	if list.Items[0].Spec.Containers != nil || list.Items[0].ManagedFields != nil {
		return errors.New("fields that nobody reads are cached")
	}
	parent := gate.ParentOf(want).Key.String()
	err := target.Client.List(ctx, list, client.MatchingFields{engage.IndexParent: parent})
	if err != nil || len(list.Items) != 1 {
		return fmt.Errorf("%d PodChaperons are found by %s: %w", len(list.Items), parent, err)
	}
	return nil
}

func TestRotatedCredentialsAreUsedWithoutAGap(t *testing.T) {
	key, secret := connect(t, c2Alice)
	node := waitForNode(t, key, ready(corev1.ConditionTrue))
	first := engagedTarget(t, key)

	setLogin(t, secret, c2Bob)
	env.Eventually(t, func(ctx context.Context) error {
		review := &authenticationv1.SelfSubjectReview{}
		engaged := engagedTarget(t, key) // It is never disengaged.
		if err := env.ClientFor(t, engaged.Config).Create(ctx, review); err != nil {
			return err
		}
		if review.Status.UserInfo.Username != "bob" {
			return errors.New("the old certificate is still in use")
		}
		return nil
	})
	second := engagedTarget(t, key)
	if first == second {
		t.Error("the engagement changed in place")
	}

	env.Change(t, c1, secret, func(secret *corev1.Secret) { secret.Annotations = map[string]string{"touched": "yes"} })
	waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "")
	env.ExpectEqual(t, "UID of the node", node.UID, waitForNode(t, key, ready(corev1.ConditionTrue)).UID)
	if engagedTarget(t, key) != second {
		t.Error("the same content made a new engagement")
	}
}

func TestAPartitionIsNoticedAndHeals(t *testing.T) {
	t.Parallel()
	w := newWire(t, c2Alice)
	key, _ := connect(t, w.login)
	target := engagedTarget(t, key)

	w.sever()
	waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonUnreachable, "since 2")
	waitForCondition(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNotConnected, "")
	waitForNode(t, key, ready(corev1.ConditionFalse))
	if engagedTarget(t, key) != target || target.Reachable() {
		t.Error("the target shall stay engaged, and unreachable")
	}
	made := createChaperon(t, key, env.Namespace(t, nil, c2), "made-meanwhile")

	w.mend()
	waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "")
	if err := holdsOnly(t.Context(), key, made); err != nil {
		t.Errorf("reachable, but the cache is stale: %v", err)
	}
	waitForNode(t, key, ready(corev1.ConditionTrue))
}

func TestADeletedTargetTakesItsChaperonsAndNodeAlong(t *testing.T) {
	key, _ := connect(t, c2Alice)
	namespace := env.Namespace(t, nil, c2)
	ours := createChaperon(t, key, namespace, "ours")
	anothers := createChaperon(t, createClusterTarget(t, env.Namespace(t, nil, c1)), namespace, "anothers")
	waitForCache(t, key, ours)

	env.Delete(t, c1, clusterTarget(key))
	env.Eventually(t, func(context.Context) error {
		// Nothing collects garbage here, so it stays until its dependents are gone.
		if env.Exists(t, c2, ours) && ours.DeletionTimestamp.IsZero() {
			return errors.New("the PodChaperon is not deleted")
		}
		return nil
	})
	waitForNoNode(t, key)
	if _, ok := registry.ByKey(key); ok {
		t.Error("the target is still engaged")
	}
	if !env.Exists(t, c2, anothers) || !anothers.DeletionTimestamp.IsZero() {
		t.Error("another target's PodChaperon was deleted, too")
	}
}

func TestATargetThatIsDeletedWhileItIsAwayLosesItsChaperonsWhenItIsBack(t *testing.T) {
	t.Parallel()
	w := newWire(t, c2Alice)
	key, _ := connect(t, w.login)
	// Targets of other tests lead to c2, too. They would delete it as soon as no target has it, but for its proxy.
	proxy := env.Proxy(env.Namespace(t, nil, c1, c2), "ours")
	env.CreateForTest(t, c1, proxy)
	ours := env.ChaperonOf(proxy, sourceID, key)
	env.CreateForTest(t, c2, ours)
	waitForCache(t, key, ours)
	w.sever()
	waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonUnreachable, "")
	env.Delete(t, c1, clusterTarget(key))
	waitForNoNode(t, key)
	if !env.Exists(t, c2, ours) || !ours.DeletionTimestamp.IsZero() {
		t.Fatal("the PodChaperon was deleted in a target that is away")
	}
	w.mend()
	env.Eventually(t, func(context.Context) error {
		if env.Exists(t, c2, ours) && ours.DeletionTimestamp.IsZero() {
			return errors.New("the PodChaperon is not deleted")
		}
		return nil
	})
}

func TestADeletedTargetTakesItsCopiesAlong(t *testing.T) {
	key, _ := connect(t, c2Alice)
	namespace := env.Namespace(t, nil, c2)
	meta := func(name string, of types.NamespacedName) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			v1alpha1.LabelParentClusterID: sourceID, v1alpha1.LabelTargetHash: translate.TargetHash(of),
			v1alpha1.LabelTargetID: translate.TargetID(of),
		}}
	}
	short := meta("short", key) // The source has written no such copy since it has a key.
	delete(short.Labels, v1alpha1.LabelTargetID)
	ports := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("web", key), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels[discoveryv1.LabelManagedBy] = v1alpha1.FieldOwner
	ingress := &networkingv1.Ingress{ObjectMeta: meta("web", key)}
	ingress.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	ours := []client.Object{&corev1.Service{ObjectMeta: meta("web", key), Spec: ports}, slice, ingress}
	others := []client.Object{
		&corev1.Service{ObjectMeta: meta("anothers", types.NamespacedName{Name: "another"}), Spec: ports},
		&corev1.Service{ObjectMeta: short, Spec: ports},
		&discoveryv1.EndpointSlice{ObjectMeta: meta("its-own", key), AddressType: discoveryv1.AddressTypeIPv4},
	}
	env.CreateForTest(t, c2, slices.Concat(ours, others)...)
	env.Delete(t, c1, clusterTarget(key))
	for _, object := range ours {
		env.WaitGone(t, c2, object)
	}
	for _, object := range others {
		if !env.Exists(t, c2, object) {
			t.Errorf("%T %q, which is not the target's, was deleted, too", object, object.GetName())
		}
	}
}

func TestAManagerThatStopsDeletesNothingAndTheNextTakesOver(t *testing.T) {
	stays, _ := connect(t, c2Alice)
	goes, _ := connect(t, c2Alice)
	trace := waitForNode(t, goes, ready(corev1.ConditionTrue))
	node := waitForNode(t, stays, ready(corev1.ConditionTrue))
	made := createChaperon(t, stays, env.Namespace(t, nil, c2), "made")

	stopManager()
	if !env.Exists(t, c1, virtualNode(stays)) {
		t.Error("the node is gone with the manager")
	}
	env.Delete(t, c1, clusterTarget(goes))
	startManager()
	waitForNoNode(t, goes)
	env.WaitForEvent(t, c1, trace, v1alpha1.ReasonDelegatesMayRun, "deleted while no manager led")
	waitForCache(t, stays, made)
	env.ExpectEqual(t, "UID of the node", node.UID, waitForNode(t, stays, ready(corev1.ConditionTrue)).UID)
}

// waitForNoNode waits until a target has no virtual node, and no lease of one.
func waitForNoNode(t *testing.T, key types.NamespacedName) {
	t.Helper()
	env.WaitGone(t, c1, virtualNode(key))
	env.WaitGone(t, c1, leaseOf(key))
}
