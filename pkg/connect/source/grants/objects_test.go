package grants

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOnlyOurOwnBindingsAreChanged(t *testing.T) {
	theirs := binding("ClusterRole", "view", "shop", "b")
	theirs.SetLabels(nil)
	h := newHere(t, theirs)
	// The cache has only objects with the label.
	objects := Objects{Client: uncached{newHere(t).WithWatch, h}, APIReader: h}
	_, err := objects.Ensure(t.Context(), binding("ClusterRole", fullRole, "shop", "b"))
	if err == nil || !strings.Contains(err.Error(), `RoleBinding "shop/b" exists, and the manager did not create it`) {
		t.Errorf("error %v", err)
	}
	objects.Client = h // A cache that has them all, too.
	if err := objects.Delete(t.Context(), theirs); err != nil {
		t.Error(err)
	}
	wantEqual(t, "bindings", []string{"shop/b: ClusterRole view"}, h.bindings(t))
}

// uncached is a client whose cache has nothing.
type uncached struct {
	client.WithWatch // the cache

	api *here
}

func (u uncached) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	return u.api.Create(ctx, o, options...)
}

func TestOurOwnBindingThatTheCacheDoesNotHaveYetIsNoProblem(t *testing.T) {
	h := newHere(t, binding("ClusterRole", fullRole, "shop", "b"))
	objects := Objects{Client: uncached{newHere(t).WithWatch, h}, APIReader: h}
	changed, err := objects.Ensure(t.Context(), binding("ClusterRole", fullRole, "shop", "b"))
	if err != nil || !changed {
		t.Errorf("changed: %t, error %v", changed, err)
	}
}

func TestWhatOfABindingChanges(t *testing.T) {
	subjects := append(userC1(), rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "c2"})
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "u"}}
	for name, test := range map[string]struct {
		role     string
		owners   []metav1.OwnerReference
		subjects []rbacv1.Subject
		changed  bool
		replaced bool // it is another object then
	}{
		"nothing":      {role: fullRole, subjects: userC1()},
		"the subjects": {role: fullRole, subjects: subjects, changed: true},
		"the owner":    {role: fullRole, subjects: userC1(), owners: owner, changed: true},
		"the role, which the API server refuses to change": {
			role: leavingRole, subjects: userC1(), changed: true, replaced: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := binding("ClusterRole", fullRole, "shop", "b")
			before.SetUID("before")
			before.SetLabels(map[string]string{LabelSource: "", "kept": ""})
			h := newHere(t, before)
			wanted := BindingTo("ClusterRole", test.role, metav1.ObjectMeta{
				Namespace: "shop", Name: "b", OwnerReferences: test.owners,
			}, test.subjects)
			changed, err := Objects{Client: h, APIReader: h}.Ensure(t.Context(), wanted)
			if err != nil || changed != test.changed {
				t.Fatalf("changed: %t, error %v", changed, err)
			}
			got := &rbacv1.RoleBinding{}
			if err := h.Get(t.Context(), client.ObjectKeyFromObject(wanted), got); err != nil {
				t.Fatal(err)
			}
			if (got.UID != "before") != test.replaced {
				t.Errorf("UID %q", got.UID)
			}
			_, kept := got.Labels["kept"]
			if _, ours := got.Labels[LabelSource]; !ours || kept == test.replaced {
				t.Errorf("labels %v", got.Labels)
			}
			wantEqual(t, "role", test.role, got.RoleRef.Name)
			wantEqual(t, "subjects", test.subjects, got.Subjects)
			wantEqual(t, "owners", test.owners, got.OwnerReferences)
		})
	}
}
