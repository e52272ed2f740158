package podcache

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var errAway = errors.New("the API server is away")

func onNode(name, scheduler, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, NodeName: node},
	}
}

func TestTheProxiesOfANodeAreListed(t *testing.T) {
	pods := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, IndexNode, NodeOfProxy).WithObjects(
		onNode("a", v1alpha1.SchedulerName, "admiralty-c2"),
		onNode("on-another-node", v1alpha1.SchedulerName, "admiralty-c3"),
		onNode("not-bound", v1alpha1.SchedulerName, ""),
		onNode("no-proxy", "default-scheduler", "admiralty-c2"),
	).Build()
	proxies, err := NewByNode(pods, nil).List(t.Context(), "admiralty-c2")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range proxies.Items {
		names = append(names, proxies.Items[i].Name)
	}
	if diff := cmp.Diff([]string{"a"}, names); diff != "" {
		t.Errorf("proxies (-want, +got):\n%s", diff)
	}
}

func TestOnlyProxiesOnNodesAreIndexed(t *testing.T) {
	for name, test := range map[string]struct {
		object client.Object
		want   []string
	}{
		"a bound proxy":    {onNode("a", v1alpha1.SchedulerName, "admiralty-c2"), []string{"admiralty-c2"}},
		"an unbound proxy": {onNode("a", v1alpha1.SchedulerName, ""), nil},
		"another pod":      {onNode("a", "default-scheduler", "admiralty-c2"), nil},
		"another object":   {&corev1.Node{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NodeOfProxy(test.object); !slices.Equal(got, test.want) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// indexer counts the attempts to create the index, and lets the first ones fail.
type indexer struct{ attempts, fail int }

func (i *indexer) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	if i.attempts++; i.attempts <= i.fail {
		return errAway
	}
	return nil
}

func TestTheIndexIsCreatedByTheFirstListThatCan(t *testing.T) {
	pods := fake.NewClientBuilder().WithIndex(&corev1.Pod{}, IndexNode, NodeOfProxy).Build()
	of := &indexer{fail: 1}
	b := NewByNode(pods, of)
	if of.attempts != 0 {
		t.Error("the index is created although nobody has listed")
	}
	if _, err := b.List(t.Context(), "admiralty-c2"); !errors.Is(err, errAway) {
		t.Errorf("error %v, want that of the index", err)
	}
	for range 2 {
		if _, err := b.List(t.Context(), "admiralty-c2"); err != nil {
			t.Error(err)
		}
	}
	if of.attempts != 2 {
		t.Errorf("the index was created %d times, want twice: after an error, and never again", of.attempts)
	}
}

func TestAnErrorOfTheCacheIsNoEmptyList(t *testing.T) {
	away := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return errAway },
	}).Build()
	if proxies, err := NewByNode(away, nil).List(t.Context(), "admiralty-c2"); !errors.Is(err, errAway) {
		t.Errorf("%v, error %v", proxies, err)
	}
}
