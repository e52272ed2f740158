package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func TestBrokenTargetsSayWhyAndConnectOnceMended(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt      func(*corev1.Secret)
		reason, text string
	}{
		"no Secret":        {reason: v1alpha1.ReasonSecretNotFound, text: "does not exist; create it"},
		"no such key":      {func(s *corev1.Secret) { s.Data = map[string][]byte{"kubeconfig": nil} }, v1alpha1.ReasonSecretKeyNotFound, "but kubeconfig"},
		"no kubeconfig":    {func(s *corev1.Secret) { s.Data["config"] = []byte("hello") }, v1alpha1.ReasonInvalidKubeconfig, "not a kubeconfig"},
		"an expired token": {func(s *corev1.Secret) { s.Data["config"] = kubeconfigOf(t, wrongToken()) }, v1alpha1.ReasonUnauthorized, "kubectl multicluster connect again"},
		"no rights":        {func(s *corev1.Secret) { s.Data["config"] = kubeconfigOf(t, c2Nobody) }, v1alpha1.ReasonForbidden, "ClusterSource"},
		"nobody there":     {func(s *corev1.Secret) { s.Data["config"] = kubeconfigOf(t, nobodyThere()) }, v1alpha1.ReasonUnreachable, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := c1.Namespace(t, nil)
			secret := kubeconfigSecret(t, namespace, c2Alice)
			good := secret.DeepCopy()
			if test.breakIt != nil {
				test.breakIt(secret)
				create(t, c1.Client, secret)
			}
			key := clusterTarget(t, namespace)
			expect(t, key, v1alpha1.ConditionConnected, test.reason, test.text)
			expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNotConnected, "")
			expectNode(t, key, ready(corev1.ConditionFalse))

			if test.breakIt == nil {
				create(t, c1.Client, good)
			} else if err := c1.Client.Update(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			expect(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, c2.Config.Host)
			expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
			expectEvents(t, key.Name, test.reason, v1alpha1.ReasonConnected)
		})
	}
}

func wrongToken() *rest.Config {
	return &rest.Config{Host: c2.Config.Host, BearerToken: "expired", TLSClientConfig: rest.TLSClientConfig{CAData: c2.Config.CAData}}
}

func nobodyThere() *rest.Config {
	config := rest.CopyConfig(c2Alice)
	config.Host = "https://127.0.0.1:1"
	return config
}

func expectEvents(t *testing.T, target string, reasons ...string) {
	t.Helper()
	apiserver.Eventually(t, func(ctx context.Context) error {
		list := &eventsv1.EventList{}
		if err := c1.Client.List(ctx, list); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, event := range list.Items {
			if event.Regarding.Name == target {
				seen[event.Reason] = true
			}
		}
		for _, reason := range reasons {
			if !seen[reason] {
				return fmt.Errorf("no event %s about %s, but %v", reason, target, seen)
			}
		}
		return nil
	})
}

func TestATargetConnectsBesideOneThatHangs(t *testing.T) {
	hanging := newWire(t, c2Alice)
	hanging.sever()
	t.Cleanup(hanging.mend)
	namespace := c1.Namespace(t, nil)
	create(t, c1.Client, kubeconfigSecret(t, namespace, hanging.config))
	hangs := clusterTarget(t, namespace)
	expect(t, hangs, v1alpha1.ConditionConnected, v1alpha1.ReasonConnecting, "")

	connectedTarget(t, c2Alice)
	expect(t, hangs, v1alpha1.ConditionConnected, v1alpha1.ReasonUnreachable, "too long")
}

func TestSelfIsNotInstalledUntilItPublishesASummary(t *testing.T) {
	key := types.NamespacedName{Name: "self"}
	create(t, c1.Client, &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Spec: v1alpha1.ClusterTargetSpec{Self: true}})
	expect(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonNotInstalled, "install multicluster-scheduler")
	create(t, c1.Client, &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}})
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
	if engaged, ok := registry.ByKey(key); !ok || !engaged.Itself {
		t.Errorf("the target is not known to be the source itself: %v", engaged)
	}
}

func TestANamespacedTargetSeesItsNamespaceOnly(t *testing.T) {
	namespace := c1.Namespace(t, nil)
	for _, name := range []string{namespace, namespace + "-other"} {
		create(t, c2.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	create(t, c1.Client, kubeconfigSecret(t, namespace, c2Alice))
	key := types.NamespacedName{Namespace: namespace, Name: "t"}
	create(t, c1.Client, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "t"},
		Spec:       v1alpha1.TargetSpec{KubeconfigSecret: &v1alpha1.KubeconfigSecret{Name: "c2"}},
	})
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
	if engaged, ok := registry.ByKey(key); !ok || engaged.Itself {
		t.Errorf("another cluster is taken for the source: %v", engaged)
	}
	chaperon(t, key, namespace+"-other", "unseen")
	chaperon(t, types.NamespacedName{Name: "another"}, namespace, "anothers")
	seen := chaperon(t, key, namespace, "seen")
	apiserver.Eventually(t, func(ctx context.Context) error { return onlySees(ctx, key, client.ObjectKeyFromObject(seen)) })
}

// onlySees tells whether the cache of an engaged target holds one PodChaperon, stripped and indexed.
func onlySees(ctx context.Context, key, want types.NamespacedName) error {
	target, ok := registry.ByKey(key)
	if !ok {
		return fmt.Errorf("%s is not engaged", key)
	}
	list := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, list); err != nil {
		return err
	}
	if len(list.Items) != 1 || client.ObjectKeyFromObject(&list.Items[0]) != want {
		return fmt.Errorf("%d PodChaperons are seen", len(list.Items))
	}
	if list.Items[0].Spec.Containers != nil || list.Items[0].ManagedFields != nil {
		return errors.New("what nobody reads is cached")
	}
	parent := want.Namespace + "/proxy-of-" + want.Name
	if err := target.Client.List(ctx, list, client.MatchingFields{engage.IndexParent: parent}); err != nil || len(list.Items) != 1 {
		return fmt.Errorf("%d PodChaperons are found by %s: %w", len(list.Items), parent, err)
	}
	return nil
}

func TestRotatedCredentialsAreUsedWithoutAGap(t *testing.T) {
	key, secret := connectedTarget(t, c2Alice)
	node := expectNode(t, key, ready(corev1.ConditionTrue))
	first, _ := registry.ByKey(key)

	secret.Data["config"] = kubeconfigOf(t, c2Bob)
	if err := c1.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, func(context.Context) error {
		now, ok := registry.ByKey(key)
		if !ok {
			t.Fatal("the target was disengaged for the rotation")
		}
		if string(now.Config.CertData) != string(c2Bob.CertData) {
			return errors.New("the old certificate is still in use")
		}
		return nil
	})
	second, _ := registry.ByKey(key)
	if first == second {
		t.Error("the engagement changed in place")
	}

	secret.Annotations = map[string]string{"touched": "yes"}
	if err := c1.Client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	expect(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "")
	if now := expectNode(t, key, ready(corev1.ConditionTrue)); now.UID != node.UID {
		t.Error("the node was replaced")
	}
	if third, _ := registry.ByKey(key); third != second {
		t.Error("the same content made a new engagement")
	}
}

func TestAPartitionIsNoticedAndHeals(t *testing.T) {
	w := newWire(t, c2Alice)
	key, _ := connectedTarget(t, w.config)
	target, _ := registry.ByKey(key)

	w.sever()
	expect(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonUnreachable, "since 2")
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNotConnected, "")
	expectNode(t, key, ready(corev1.ConditionFalse))
	if now, _ := registry.ByKey(key); now != target || target.Reachable() {
		t.Error("the target shall stay engaged, and unreachable")
	}
	namespace := c2.Namespace(t, nil)
	made := chaperon(t, key, namespace, "made-meanwhile")

	w.mend()
	expect(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "")
	if err := onlySees(t.Context(), key, client.ObjectKeyFromObject(made)); err != nil {
		t.Errorf("reachable, but the cache is stale: %v", err)
	}
	expectNode(t, key, ready(corev1.ConditionTrue))
}

func TestADeletedTargetTakesItsChaperonsAndNodeAlong(t *testing.T) {
	key, _ := connectedTarget(t, c2Alice)
	namespace := c2.Namespace(t, nil)
	ours := chaperon(t, key, namespace, "ours")
	anothers := chaperon(t, types.NamespacedName{Name: "another"}, namespace, "anothers")
	apiserver.Eventually(t, func(ctx context.Context) error { return onlySees(ctx, key, client.ObjectKeyFromObject(ours)) })

	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	if err := c1.Client.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		err := c2.Client.Get(ctx, client.ObjectKeyFromObject(ours), ours)
		if err == nil && ours.DeletionTimestamp.IsZero() { // Nothing collects garbage here, so it stays until its dependents are gone.
			return errors.New("the PodChaperon is not deleted")
		}
		return client.IgnoreNotFound(err)
	})
	apiserver.Eventually(t, func(ctx context.Context) error { return noNode(ctx, key) })
	if _, ok := registry.ByKey(key); ok {
		t.Error("the target is still engaged")
	}
	if err := c2.Client.Get(t.Context(), client.ObjectKeyFromObject(anothers), anothers); err != nil || !anothers.DeletionTimestamp.IsZero() {
		t.Errorf("another target's PodChaperon was deleted, too: %v", err)
	}
}

func TestADeletedTargetTakesItsCopiesAlong(t *testing.T) {
	key, _ := connectedTarget(t, c2Alice)
	namespace := c2.Namespace(t, nil)
	meta := func(name string, of types.NamespacedName) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
			v1alpha1.LabelParentClusterID: clusterID, v1alpha1.LabelTargetHash: translate.TargetHash(of),
		}}
	}
	ports := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
	backend := &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta("web", key), AddressType: discoveryv1.AddressTypeIPv4}
	slice.Labels[discoveryv1.LabelManagedBy] = v1alpha1.FieldOwner
	ours := []client.Object{
		&corev1.Service{ObjectMeta: meta("web", key), Spec: ports}, slice,
		&networkingv1.Ingress{ObjectMeta: meta("web", key), Spec: networkingv1.IngressSpec{DefaultBackend: backend}},
	}
	others := []client.Object{
		&corev1.Service{ObjectMeta: meta("anothers", types.NamespacedName{Name: "another"}), Spec: ports},
		&discoveryv1.EndpointSlice{ObjectMeta: meta("its-own", key), AddressType: discoveryv1.AddressTypeIPv4},
	}
	for _, object := range slices.Concat(ours, others) {
		create(t, c2.Client, object)
	}
	if err := c1.Client.Delete(t.Context(), &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}); err != nil {
		t.Fatal(err)
	}
	for _, object := range ours {
		apiserver.Eventually(t, func(ctx context.Context) error {
			err := c2.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, fmt.Errorf("%T is still there", object))
		})
	}
	for _, object := range others {
		if err := c2.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("what is not the target's was deleted, too: %v", err)
		}
	}
}

func TestAManagerThatStopsDeletesNothingAndTheNextTakesOver(t *testing.T) {
	stays, _ := connectedTarget(t, c2Alice)
	goes, _ := connectedTarget(t, c2Alice)
	node := expectNode(t, stays, ready(corev1.ConditionTrue))
	namespace := c2.Namespace(t, nil)
	made := chaperon(t, stays, namespace, "made")

	if err := running.end(); err != nil {
		t.Fatal(err)
	}
	if err := noNode(t.Context(), stays); err == nil {
		t.Error("the node is gone with the manager")
	}
	if err := c1.Client.Delete(t.Context(), &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: goes.Name}}); err != nil {
		t.Fatal(err)
	}
	if err := start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, func(ctx context.Context) error { return noNode(ctx, goes) })
	apiserver.Eventually(t, func(ctx context.Context) error { return onlySees(ctx, stays, client.ObjectKeyFromObject(made)) })
	if now := expectNode(t, stays, ready(corev1.ConditionTrue)); now.UID != node.UID {
		t.Error("the node was replaced")
	}
}

func noNode(ctx context.Context, key types.NamespacedName) error {
	err := c1.Client.Get(ctx, types.NamespacedName{Name: translate.VirtualNodeName(key)}, &corev1.Node{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the node is still there (%w)", err)
	}
	err = c1.Client.Get(ctx, leaseOf(key), lease())
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the lease is still there (%w)", err)
	}
	return nil
}
