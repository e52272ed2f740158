package grants

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestASourceGrantIsDeletedOnlyIfNoSourceHasIt has a cache that lacks a new source.
func TestASourceGrantIsDeletedOnlyIfNoSourceHasIt(t *testing.T) {
	source := &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	source.Spec.UserName = "c1"
	for name, test := range map[string]struct {
		live    []client.Object
		uid     types.UID // in the API server
		deleted bool
	}{
		"no source has it":            {uid: "u1", deleted: true},
		"a new source has it":         {uid: "u1", live: []client.Object{source}},
		"another one is in its place": {uid: "u2"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			grant := &v1alpha1.SourceGrant{
				ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName("c1"), UID: "u1"},
			}
			deleted := false
			remove := func(
				_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption,
			) error {
				asked := (&client.DeleteOptions{}).ApplyOptions(options)
				if uid := asked.Preconditions.UID; uid == nil || *uid != test.uid {
					return apierrors.NewConflict(rbacv1.Resource("sourcegrants"), o.GetName(), nil)
				}
				deleted = true
				return nil
			}
			p := &Publisher{options: Options{
				Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(grant).
					WithInterceptorFuncs(interceptor.Funcs{Delete: remove}).Build(),
				APIReader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.live...).Build(),
			}}
			_, err := p.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(grant)})
			if deleted != test.deleted || (err != nil) != (test.uid == "u2") {
				t.Errorf("deleted %t, want %t; error %v", deleted, test.deleted, err)
			}
		})
	}
}
