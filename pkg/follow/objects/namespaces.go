package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// enabledNamespaces has the names of the source's namespaces that are enabled.
type enabledNamespaces struct {
	*watch.Store[*metav1.PartialObjectMetadata, struct{}]
}

// newEnabledNamespaces makes enabledNamespaces that know none before they run. They call enabled with each namespace
// that becomes enabled.
func newEnabledNamespaces(enabled func(namespace string)) *enabledNamespaces {
	n := &enabledNamespaces{}
	n.Store = watch.NewStore(watch.StoreOptions[*metav1.PartialObjectMetadata, struct{}]{
		EntryOf:   func(*metav1.PartialObjectMetadata) struct{} { return struct{}{} },
		Transform: withoutContent,
		Changed: func(name string, _, after *struct{}) {
			if after != nil {
				enabled(name)
			}
		},
		Listed: func(before map[string]struct{}) {
			for name := range n.Entries() {
				if _, was := before[name]; !was {
					enabled(name)
				}
			}
		},
	})
	return n
}

// include says whether a namespace is enabled.
func (n *enabledNamespaces) include(namespace string) bool { return n.Entry(namespace) != nil }

// waitUntilKnown waits until the namespaces are listed, and returns the first error.
func (n *enabledNamespaces) waitUntilKnown(ctx context.Context) error {
	if err := n.Wait(ctx); err != nil {
		return fmt.Errorf("listing the enabled namespaces: %w", err)
	}
	return nil
}

// labelledNamespaces lists and watches the metadata of the enabled namespaces.
func labelledNamespaces(client metadata.Interface) toolscache.ListerWatcher {
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	const enabled = v1alpha1.LabelEnabledNamespace + "=" + v1alpha1.LabelEnabledNamespaceValue
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = enabled
			return namespaces.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.LabelSelector = enabled
			return namespaces.Watch(ctx, options)
		},
	}, client)
}
