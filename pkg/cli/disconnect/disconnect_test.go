package disconnect

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestArguments(t *testing.T) {
	for name, test := range map[string]struct {
		options options
		args    []string
		want    string // part of the error; empty if there is none
	}{
		"a name":                          {options{}, []string{"c2"}, ""},
		"no name":                         {options{}, nil, "exactly one NAME"},
		"a namespace for a ClusterTarget": {options{namespace: "a"}, []string{"c2"}, "--namespaced"},
		"to revoke and disconnect":        {options{revoke: true, targetContext: "c2"}, []string{"c2"}, ""},
		"to revoke nowhere":               {options{revoke: true}, []string{"c2"}, "--target-context"},
		"to revoke only":                  {options{revoke: true, targetContext: "c2", sourceName: "c1"}, nil, ""},
		"to revoke whose rights":          {options{revoke: true, targetContext: "c2"}, nil, "--source-name"},
		"to revoke rights of two": {
			options{revoke: true, targetContext: "c2"}, []string{"a", "b"}, "exactly one",
		},
		"to revoke in the target, and what": {
			options{revoke: true, targetContext: "c2", sourceContext: "c1"}, nil, "NAME",
		},
		"to revoke those of some Source": {
			options{revoke: true, targetContext: "c2", sourceName: "c1", namespaced: true}, nil, "--namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.options.checkArguments(nil, test.args)
			if test.want == "" && err != nil {
				t.Fatal(err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestBindingsThatTheManagerGave(t *testing.T) {
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "1"}}
	marked := map[string]string{labelByManager: ""}
	for name, test := range map[string]struct {
		labels map[string]string
		owner  string
		want   bool
	}{
		"of this source":               {marked, "1", true},
		"of another source":            {marked, "2", false},
		"to read the SourceGrant":      {marked, "grant", true},
		"without an owner":             {marked, "", true},
		"by hand":                      {nil, "", false},
		"by hand, as if of the source": {nil, "1", false},
	} {
		t.Run(name, func(t *testing.T) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}
			if test.owner != "" {
				binding.OwnerReferences = []metav1.OwnerReference{{Kind: "ClusterSource", UID: types.UID(test.owner)}}
			}
			if test.owner == "grant" {
				binding.OwnerReferences[0].Kind = "SourceGrant"
			}
			if got := given(binding, source); got != test.want {
				t.Errorf("given: %t", got)
			}
		})
	}
}
