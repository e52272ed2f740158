package watch

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestObjectsAreListedByPages(t *testing.T) {
	var asked []string
	note := func(options []client.ListOption) {
		o := client.ListOptions{}
		o.ApplyOptions(options)
		raw := o.AsListOptions()
		asked = append(asked, o.Namespace+"?"+raw.LabelSelector+"&"+raw.Continue)
		if raw.Limit != 7 {
			t.Errorf("the limit is %d", raw.Limit)
		}
	}
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption) error {
			note(options)
			return nil
		},
		Watch: func(
			_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption,
		) (apiwatch.Interface, error) {
			note(options)
			return apiwatch.NewFake(), nil
		},
	}).Build()
	services := toolscache.ToListerWatcherWithContext(ListerWatcher(
		c, &corev1.ServiceList{}, client.InNamespace("shop"), client.MatchingLabels{"a": "b"}))
	for _, page := range []string{"", "next"} {
		if _, err := services.ListWithContext(t.Context(), metav1.ListOptions{Limit: 7, Continue: page}); err != nil {
			t.Fatal(err)
		}
	}
	w, err := services.WatchWithContext(t.Context(), metav1.ListOptions{Limit: 7, Watch: true})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	if want := []string{"shop?a=b&", "shop?a=b&next", "shop?a=b&"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
}
