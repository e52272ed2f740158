package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

type acceptCase struct {
	proxy    *corev1.Pod // in the source, if there is one
	chaperon *v1alpha1.PodChaperon
	refusal  string // empty if the PodChaperon is accepted
	orphan   bool   // it passes into caches nevertheless, and holds no pod
}

func acceptCases() map[string]acceptCase {
	young := func(pod *corev1.Pod) {}
	old := func(pod *corev1.Pod) { pod.CreationTimestamp.Time = keyTime.Add(-time.Second) }
	const unprovenReason = "it has no valid proof, and its pod is not bound to admiralty-team-c2"
	proxy := newProxy()
	with := func(changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
		return newChaperon(proxy, changes...)
	}
	proof := func(proof string) func(*v1alpha1.PodChaperon) {
		return func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationProof] = proof }
	}
	key := client.ObjectKeyFromObject(proxy)
	return map[string]acceptCase{
		"a proof is enough":                        {chaperon: with()},
		"a proof of a pod that is bound elsewhere": {proxy: newProxy(boundTo("admiralty-c3")), chaperon: with()},
		"without a proof, bound here": {
			newProxy(boundTo("admiralty-team-c2")), with(unproven), "", false,
		},
		"without a proof, older than the key":   {newProxy(old), with(unproven), "", false},
		"without a proof, younger than the key": {newProxy(young), with(unproven), unprovenReason, false},
		"without a proof, bound elsewhere": {
			newProxy(boundTo("admiralty-c3")), with(unproven), unprovenReason, true,
		},
		"without a proof, of a pod that is gone": {nil, with(unproven), unprovenReason, true},
		"without a proof, of another pod's UID": {
			newProxy(func(p *corev1.Pod) { p.UID = "2" }), with(unproven), unprovenReason, true,
		},
		"without a proof, of a pod that is no proxy": {
			newProxy(func(p *corev1.Pod) { p.Spec.SchedulerName = "x" }), with(unproven), "its pod is no proxy", false,
		},
		"a proof for another target": {
			newProxy(), with(proof(proofOf("1", key, types.NamespacedName{Name: "c2"}))), unprovenReason, false,
		},
		"a proof for another UID": {
			newProxy(), with(proof(proofOf("2", key, c2))), unprovenReason, false,
		},
		"a proof for another name": {
			newProxy(), with(proof(proofOf("1", types.NamespacedName{Namespace: "team", Name: "db"}, c2))),
			unprovenReason, false,
		},
		"another name": {
			newProxy(), with(func(c *v1alpha1.PodChaperon) { c.Name = "web" }),
			"its name is not the one that belongs to its pod", false,
		},
		"another UID": {
			newProxy(), with(func(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelParentUID] = "2" }),
			"its name is not the one that belongs to its pod", false,
		},
		"no UID": {
			newProxy(), with(func(c *v1alpha1.PodChaperon) { c.Labels = nil }), "is missing", false,
		},
		"a UID of its own that is too long": {
			chaperon: with(func(c *v1alpha1.PodChaperon) { c.UID = types.UID(strings.Repeat("1", 65)) }),
			refusal:  "more than 64 characters",
		},
		"a UID as long as those of API servers": {
			chaperon: with(func(c *v1alpha1.PodChaperon) { c.UID = uuid.NewUUID() }),
		},
		"a UID of its pod that is too long": {
			chaperon: newChaperon(newProxy(func(p *corev1.Pod) { p.UID = types.UID(strings.Repeat("1", 65)) })),
			refusal:  "more than 64 characters",
		},
		"no name of a pod": {
			newProxy(), with(func(c *v1alpha1.PodChaperon) { c.Annotations = nil }), "is missing", false,
		},
		"a namespace that is not allowed": {
			chaperon: newChaperon(newProxy(func(p *corev1.Pod) { p.Namespace = "kube-system" })),
			refusal:  "the target may not have objects of its namespace",
		},
		"the proxy of a namespace that is not the PodChaperon's": {
			newProxy(),
			with(func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationParentNamespace] = "other" }),
			"its pod is in another namespace", false,
		},
		"no namespace": {
			newProxy(), with(func(c *v1alpha1.PodChaperon) { c.Namespace = "" }), "it has no namespace", false,
		},
		"an owner does not matter": {chaperon: with(func(c *v1alpha1.PodChaperon) {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "web", UID: "1"}}
		})},
		"a mark of orphans from the target does not matter": {chaperon: with(func(c *v1alpha1.PodChaperon) {
			c.Annotations[annotationOrphan] = ""
		})},
	}
}

func TestAccept(t *testing.T) {
	for name, test := range acceptCases() {
		t.Run(name, func(t *testing.T) {
			var pods []client.Object
			if test.proxy != nil {
				pods = append(pods, test.proxy)
			}
			gate := newGate(t, pods...)
			expectRefusal(t, gate.Accept(t.Context(), test.chaperon), test.refusal)
			metadata := &metav1.PartialObjectMetadata{ObjectMeta: *test.chaperon.ObjectMeta.DeepCopy()}
			metadata.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperon"))
			expectRefusal(t, gate.Accept(t.Context(), metadata), test.refusal)
			if orphan, _ := gate.decide(t.Context(), test.chaperon); orphan != test.orphan {
				t.Errorf("orphan: got %t, want %t", orphan, test.orphan)
			}
		})
	}
}

func expectRefusal(t *testing.T, err error, want string) {
	t.Helper()
	var forged *ForgedError
	switch {
	case want == "" && err == nil:
	case want == "" || !errors.As(err, &forged) || !strings.Contains(forged.Reason, want):
		t.Errorf("got the error %v, want the refusal %q", err, want)
	}
}

func TestAcceptOfOtherKinds(t *testing.T) {
	service := func(namespace string) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	}
	for name, test := range map[string]struct {
		object  client.Object
		refusal string
	}{
		"a copy in an allowed namespace": {service("team"), ""},
		"a copy in another namespace": {
			service("kube-system"), "the target may not have objects of its namespace",
		},
		"a copy without a namespace": {service(""), "it has no namespace"},
		"a StorageClass":             {&storagev1.StorageClass{}, ""},
		"an IngressClass":            {&networkingv1.IngressClass{}, ""},
		"the ClusterSummary":         {validSummary(), ""},
		"another ClusterSummary":     {&v1alpha1.ClusterSummary{}, "its name is not singleton"},
		"a kind that the target chose": {
			&corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "StorageClass"}}, "it has no namespace",
		},
		"the metadata of the ClusterSummary": {
			metadataOf("ClusterSummary"), "only whole ClusterSummaries can be checked",
		},
	} {
		t.Run(name, func(t *testing.T) { expectRefusal(t, newGate(t).Accept(t.Context(), test.object), test.refusal) })
	}
}

func metadataOf(kind string) client.Object {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}}
}

func TestAProxyThatCannotBeLookedUpProvesNothing(t *testing.T) {
	gate := newGate(t)
	gate.Proxies = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("the cache has not synced")
		},
	}).Build()
	err := gate.Accept(t.Context(), newChaperon(newProxy(), unproven))
	expectRefusal(t, err, "its pod cannot be looked up: the cache has not synced")
}

func TestAPanicIsARefusal(t *testing.T) {
	gate := newGate(t)
	gate.Proxies = nil
	expectRefusal(t, gate.Accept(t.Context(), newChaperon(newProxy(), unproven)), "it cannot be checked")
}

func TestTheErrorNamesTheObject(t *testing.T) {
	err := newGate(t).Accept(t.Context(), newChaperon(newProxy(), unproven, func(c *v1alpha1.PodChaperon) {
		c.Namespace, c.Name = "kube-system", strings.Repeat("x", 1000)
	}))
	want := `the PodChaperon "kube-system/` + strings.Repeat("x", 64) + `…" of target "team/c2" is not accepted: ` +
		"the target may not have objects of its namespace"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}
