package restriction

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTheRulesOfAllSourcesThatCoverTheNamespaceApply(t *testing.T) {
	rules := podSecurity(v1alpha1.PodSecurityBaseline, "")
	objects := []client.Object{
		clusterSource("c2", rules), clusterSource("c1", rules), clusterSource("without-rules", nil),
		source("team-a", "c3", rules), source("team-a", "without-rules", nil), source("team-b", "c4", rules),
	}
	for namespace, want := range map[string][]Rule{
		"team-a": {{`ClusterSource "c1"`, rules}, {`ClusterSource "c2"`, rules}, {`Source "c3"`, rules}},
		"team-b": {{`ClusterSource "c1"`, rules}, {`ClusterSource "c2"`, rules}, {`Source "c4"`, rules}},
		"other":  {{`ClusterSource "c1"`, rules}, {`ClusterSource "c2"`, rules}},
	} {
		got, err := New(newClient(t, objects...), "").RulesOf(t.Context(), chaperonIn(namespace))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("namespace %q: error %v, rules (-want +got):\n%s", namespace, err, diff)
		}
	}
}

func TestTheRulesOfTheSourcesWithTheClusterIDApply(t *testing.T) {
	rules := podSecurity(v1alpha1.PodSecurityBaseline, "")
	c1, c2, lax := clusterSource("c1", rules), clusterSource("c2", rules), clusterSource("lax", nil)
	c1.Spec.ClusterID, c2.Spec.ClusterID, lax.Spec.ClusterID = "id-1", "id-2", "id-3"
	c3, elsewhere := source("team-a", "c3", rules), source("team-b", "c4", rules)
	c3.Spec.ClusterID, elsewhere.Spec.ClusterID = "id-1", "id-4"
	anyID := clusterSource("any", rules)
	of := func(names ...string) []Rule {
		var all []Rule
		for _, name := range names {
			all = append(all, Rule{name, rules})
		}
		return all
	}
	everyone := of(`ClusterSource "c1"`, `ClusterSource "c2"`, `Source "c3"`)
	for name, test := range map[string]struct {
		more []client.Object
		id   string
		want []Rule
	}{
		"the source's own":                         {nil, "id-2", of(`ClusterSource "c2"`)},
		"both kinds with the ID":                   {nil, "id-1", of(`ClusterSource "c1"`, `Source "c3"`)},
		"a source without rules":                   {nil, "id-3", nil},
		"an ID that no source has":                 {nil, "id-5", everyone},
		"an ID that a source of another place has": {nil, "id-4", everyone},
		"no ID": {nil, "", everyone},
		"a source that may use any ID": {
			[]client.Object{anyID}, "id-2", of(`ClusterSource "any"`, `ClusterSource "c2"`),
		},
	} {
		t.Run(name, func(t *testing.T) {
			chaperon := chaperonIn("team-a")
			if test.id != "" {
				chaperon.Labels = map[string]string{v1alpha1.LabelParentClusterID: test.id}
			}
			reader := newClient(t, append([]client.Object{c1, c2, lax, c3, elsewhere}, test.more...)...)
			got, err := New(reader, "").RulesOf(t.Context(), chaperon)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("error %v, rules (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestNoDelegateRunsAsASourceOrTheManager(t *testing.T) {
	c1, c2, c3 := clusterSource("c1", nil), clusterSource("c2", nil), source("team-a", "c3", nil)
	c1.Spec.ServiceAccount = &v1alpha1.ServiceAccountReference{Namespace: "team-a", Name: "c1"}
	c2.Spec.UserName = "system:serviceaccount:team-a:c2"
	c3.Spec.UserName, c3.Spec.ServiceAccountName = "c3@example.org", "c3"
	restriction := New(newClient(t, c1, c2, c3), "system:serviceaccount:team-a:manager")
	for _, test := range []struct{ namespace, account, refused string }{
		{"team-a", "c1", `is "c1", the account of ClusterSource "c1"`},
		{"team-a", "c2", `the account of ClusterSource "c2"`},
		{"team-a", "c3", `the account of Source "c3"`},
		{"team-a", "manager", "the account of this manager"},
		{"team-a", "web", ""}, {"team-a", "", ""},
		{"team-b", "c1", ""}, {"team-b", "c3", ""}, {"team-b", "manager", ""},
	} {
		pod := strictPod()
		pod.Namespace, pod.Spec.ServiceAccountName = test.namespace, test.account
		err := restriction.CheckAccount(t.Context(), pod)
		refused := (*RefusedError)(nil)
		if test.refused == "" && err != nil ||
			test.refused != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("account %q of %q: error %v, want %q", test.account, test.namespace, err, test.refused)
		}
	}
}

func TestTheDefaultAccountOfASourceIsNotForDelegates(t *testing.T) {
	s := source("default", "c3", nil)
	s.Spec.ServiceAccountName = "default"
	if err := New(newClient(t, s), "").CheckAccount(t.Context(), strictPod()); err == nil {
		t.Error("a pod without a service account has the rights of a source")
	}
}

func TestWithoutRulesNothingApplies(t *testing.T) {
	reader := newClient(t, clusterSource("c1", nil), source("team-a", "c1", nil))
	rules, err := New(reader, "").RulesOf(t.Context(), chaperonIn("team-a"))
	if err != nil || len(rules) > 0 {
		t.Errorf("rules %v, error %v", rules, err)
	}
}

func TestRulesThatCannotBeReadAreAnError(t *testing.T) {
	for _, fails := range []client.ObjectList{&v1alpha1.ClusterSourceList{}, &v1alpha1.SourceList{}} {
		broken := errors.New("the cache is not ready")
		reader := interceptor.NewClient(newClient(t), interceptor.Funcs{List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if cmp.Equal(list, fails) {
				return broken
			}
			return c.List(ctx, list, options...)
		}})
		if rules, err := New(reader, "").RulesOf(t.Context(), chaperonIn("team-a")); !errors.Is(err, broken) {
			t.Errorf("%T: rules %v, error %v", fails, rules, err)
		}
	}
}

func newClient(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func clusterSource(name string, rules *v1alpha1.DelegateRules) *v1alpha1.ClusterSource {
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterSourceSpec{Delegates: rules},
	}
}

func source(namespace, name string, rules *v1alpha1.DelegateRules) *v1alpha1.Source {
	return &v1alpha1.Source{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.SourceSpec{Delegates: rules},
	}
}

func chaperonIn(namespace string) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-abcde"}}
}
