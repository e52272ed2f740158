package warnings

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// page is the number of events in one page of a list.
const page = 500

// ofPods selects the warnings about pods. The API server evaluates it.
var ofPods = fields.SelectorFromSet(fields.Set{ //nolint:gochecknoglobals // a constant
	"type": corev1.EventTypeWarning, "involvedObject.kind": "Pod",
}).String()

// stream is a ListerWatcher and a store in one. It passes each event on, and keeps none.
type stream struct {
	events corev1client.EventInterface
	see    func(context.Context, *corev1.Event)
	// ctx is that of the store's methods.
	ctx context.Context //nolint:containedctx // the interface of stores has no context
	// works is called when the API server has answered.
	works func()
}

var (
	_ toolscache.ListerWatcherWithContext = &stream{}
	_ toolscache.ReflectorStore           = &stream{}
)

// IsWatchListSemanticsUnSupported says that lists are to be read page by page.
func (*stream) IsWatchListSemanticsUnSupported() bool { return true }

// ListWithContext passes each page on, and returns an empty list, from which the watch goes on.
func (s *stream) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	empty, next := &corev1.EventList{}, ""
	for {
		list, err := s.listPage(ctx, next)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			s.see(ctx, &list.Items[i])
		}
		if empty.ResourceVersion, next = list.ResourceVersion, list.Continue; next == "" {
			return empty, nil
		}
	}
}

func (s *stream) listPage(ctx context.Context, next string) (*corev1.EventList, error) {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	list, err := s.events.List(ctx, metav1.ListOptions{FieldSelector: ofPods, Limit: page, Continue: next})
	if err != nil {
		return nil, fmt.Errorf("listing the warnings about pods: %w", err)
	}
	return list, nil
}

// WatchWithContext watches from where the list ended.
func (s *stream) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.FieldSelector = ofPods
	return s.events.Watch(ctx, options)
}

// List is for the interface: reflectors call ListWithContext.
func (s *stream) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(s.ctx, options)
}

// Watch is for the interface: reflectors call WatchWithContext.
func (s *stream) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(s.ctx, options)
}

// Add passes an event on.
func (s *stream) Add(object any) error {
	if event, ok := object.(*corev1.Event); ok {
		s.see(s.ctx, event)
	}
	return nil
}

// Update passes an event on that was repeated.
func (s *stream) Update(object any) error { return s.Add(object) }

// Delete does nothing: events expire.
func (*stream) Delete(any) error { return nil }

// Replace notes that the list has been read.
func (s *stream) Replace([]any, string) error {
	s.works()
	return nil
}

// Resync does nothing.
func (*stream) Resync() error { return nil }
