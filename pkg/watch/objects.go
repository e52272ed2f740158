package watch

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ListerWatcher lists, page by page, and watches the objects of a list's type. The options select them.
func ListerWatcher(
	c client.WithWatch, list client.ObjectList, options ...client.ListOption,
) toolscache.ListerWatcher {
	selected := client.ListOptions{}
	selected.ApplyOptions(options)
	with := func(request metav1.ListOptions) *client.ListOptions {
		o := selected
		o.Raw, o.Limit, o.Continue = &request, request.Limit, request.Continue
		return &o
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, request metav1.ListOptions) (runtime.Object, error) {
			answer, ok := list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, fmt.Errorf("%T is no list", list)
			}
			return answer, c.List(ctx, answer, with(request))
		},
		WatchFuncWithContext: func(ctx context.Context, request metav1.ListOptions) (apiwatch.Interface, error) {
			return c.Watch(ctx, list, with(request))
		},
	}
}
