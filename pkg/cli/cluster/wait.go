package cluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Wait watches the object that has the name of the given one, and returns it when done returns true for it. It calls
// done with the current object, or on its creation, and after every change.
func Wait[T client.Object](ctx context.Context, c *Cluster, object T, done func(T) bool) (T, error) {
	lw, err := c.listWatch(object)
	if err != nil {
		return object, err
	}
	last := object
	_, err = watchtools.UntilWithSync(ctx, lw, object, nil, func(event watch.Event) (bool, error) {
		seen, ok := any(event.Object).(T)
		if !ok || event.Type == watch.Deleted {
			return false, fmt.Errorf("%s was deleted in context %q", c.Describe(object), c.Context)
		}
		last = seen
		return done(seen), nil
	})
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return last, err
}

// WaitForCondition waits until the condition is True, and calls progress with each new version of the condition. If the
// time runs out, the error has the last version.
func WaitForCondition[T client.Object](
	ctx context.Context, c *Cluster, object T, conditionType string, progress func(metav1.Condition),
) (T, error) {
	var last metav1.Condition
	seen, err := Wait(ctx, c, object, func(o T) bool {
		current := meta.FindStatusCondition(Conditions(o), conditionType)
		// A condition of an earlier generation means nothing now. Some writers do not set the generation.
		if current == nil || current.ObservedGeneration != 0 && current.ObservedGeneration < o.GetGeneration() {
			return false
		}
		if last.Reason != current.Reason || last.Message != current.Message {
			progress(*current)
		}
		last = *current
		return current.Status == metav1.ConditionTrue
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		return seen, err
	}
	if last.Type == "" {
		return seen, fmt.Errorf("no manager looked at %s in time; does it run? See\n"+
			"  kubectl --context %s get pods --all-namespaces --selector app.kubernetes.io/name=multicluster-scheduler",
			c.Describe(object), c.Context)
	}
	return seen, fmt.Errorf("%s did not become %s in time: %s: %s",
		c.Describe(object), conditionType, last.Reason, last.Message)
}

func (c *Cluster) listWatch(object client.Object) (cache.ListerWatcher, error) {
	gvk, err := c.Client.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	prototype, err := c.Client.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	newList := func() client.ObjectList {
		list, _ := prototype.DeepCopyObject().(client.ObjectList)
		return list
	}
	scope := &client.ListOptions{
		Namespace:     object.GetNamespace(),
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName()),
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := newList()
			return list, c.Client.List(ctx, list, scope, &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Client.Watch(ctx, newList(), scope, &client.ListOptions{Raw: &options})
		},
	}, nil
}
