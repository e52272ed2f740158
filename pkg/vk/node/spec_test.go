package node

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestANodeOfAnEarlierVersionGetsTheProvidersName(t *testing.T) {
	for _, test := range []struct{ has, want string }{
		{"", "admiralty://shop/c2"},
		{"admiralty://shop/c2", "admiralty://shop/c2"},
		{"other://c2", "other://c2"}, // No API server lets it change.
	} {
		users := corev1.Taint{Key: "users", Effect: corev1.TaintEffectNoExecute}
		existing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-shop-c2"}, Spec: corev1.NodeSpec{
			ProviderID: test.has, Taints: []corev1.Taint{Taint(), users},
		}}
		r := &Reconciler{options: Options{Client: fake.NewClientBuilder().WithObjects(existing).Build()}}
		f := facts{key: types.NamespacedName{Namespace: "shop", Name: "c2"}, existing: existing.DeepCopy()}
		if err := r.options.Client.Get(t.Context(), client.ObjectKeyFromObject(existing), f.existing); err != nil {
			t.Fatal(err)
		}
		if err := r.ensureSpec(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		got := &corev1.Node{}
		if err := r.options.Client.Get(t.Context(), client.ObjectKeyFromObject(existing), got); err != nil {
			t.Fatal(err)
		}
		if got.Spec.ProviderID != test.want || len(got.Spec.Taints) != 2 {
			t.Errorf("from %q: it is %q, want %q, with the taints %v",
				test.has, got.Spec.ProviderID, test.want, got.Spec.Taints)
		}
		if unchanged := got.ResourceVersion == f.existing.ResourceVersion; unchanged != (test.has != "") {
			t.Errorf("from %q: unchanged is %t", test.has, unchanged)
		}
	}
}

func TestASpecIsTriedAgainOnlyAfterErrorsWithoutAnEvent(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, test := range map[string]struct {
		answer error
		want   bool
	}{
		"the node is gone":               {apierrors.NewNotFound(nodes, "admiralty-c2"), false},
		"the node has changed":           {apierrors.NewConflict(nodes, "admiralty-c2", nil), false},
		"the API server does not answer": {errAway, true},
	} {
		funcs := interceptor.Funcs{Patch: func(
			context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption,
		) error {
			return test.answer
		}}
		existing := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}}
		r := &Reconciler{options: Options{Client: newBuilder(t, existing).WithInterceptorFuncs(funcs).Build()}}
		if err := r.ensureSpec(t.Context(), facts{key: c2, existing: existing}); (err != nil) != test.want {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTheProvidersNameOfANewNode(t *testing.T) {
	f := engagedFacts()
	f.key = types.NamespacedName{Name: "c2"}
	if got := desiredNode(f).Spec.ProviderID; got != "admiralty://c2" {
		t.Errorf("it is %q", got)
	}
}
