package targetkind_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

var errAway = errors.New("the API server is away")

// newLister returns a client of a cluster with targets of both kinds, which cannot list objects of one kind.
func newLister(t *testing.T, fails client.ObjectList) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kind := func(list client.ObjectList) string {
		_, clusterTargets := list.(*v1alpha1.ClusterTargetList)
		return map[bool]string{true: "ClusterTargets", false: "Targets"}[clusterTargets]
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}},
		&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c3", Labels: map[string]string{"a": "b"}}},
		&v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c2"}},
		&v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-b", Name: "c3", Labels: map[string]string{"a": "b"},
		}},
	).WithInterceptorFuncs(interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		asked := (&client.ListOptions{}).ApplyOptions(options)
		switch {
		case fails != nil && kind(fails) == kind(list):
			return errAway
		case kind(list) == "ClusterTargets" && asked.Namespace != "":
			return nil // as a cache, which has none in a namespace
		}
		return c.List(ctx, list, options...)
	}}).Build()
}

func TestTargetsOfBothKindsAreListed(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		options   []client.ListOption
		want      []string
	}{
		"in all namespaces": {want: []string{"c2", "c3", "team-a/c2", "team-b/c3"}},
		"in one namespace":  {namespace: "team-a", want: []string{"c2", "c3", "team-a/c2"}},
		"with a label": {
			options: []client.ListOption{client.MatchingLabels{"a": "b"}}, want: []string{"c3", "team-b/c3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			targets, err := targetkind.List(t.Context(), newLister(t, nil), test.namespace, test.options...)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, target := range targets {
				names = append(names, targetkind.Name(client.ObjectKeyFromObject(target)))
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("targets (-want, +got):\n%s", diff)
			}
		})
	}
}

func TestAnErrorAboutOneKindIsNoListOfTheOther(t *testing.T) {
	for _, fails := range []client.ObjectList{&v1alpha1.ClusterTargetList{}, &v1alpha1.TargetList{}} {
		targets, err := targetkind.List(t.Context(), newLister(t, fails), "")
		if !errors.Is(err, errAway) || targets != nil {
			t.Errorf("%T: %d targets, error %v", fails, len(targets), err)
		}
	}
}
