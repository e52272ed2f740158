package claims

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectsOf lists and watches the objects of a list's type in a namespace. An empty namespace stands for the whole
// cluster.
func objectsOf(c client.WithWatch, list client.ObjectList, namespace string) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			answer, ok := list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, fmt.Errorf("%T is no list", list)
			}
			return answer, c.List(ctx, answer, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return c.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
	}
}
