package engage

import (
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// Objects lists and watches objects of a target, of the kinds that are not in Target.Cache. All of them have passed the
// gate.
type Objects struct {
	target *Target
	live   client.WithWatch
}

// Objects returns the target's objects. Nothing is asked before they are listed.
func (t *Target) Objects() (*Objects, error) {
	live, err := client.NewWithWatch(
		t.Config, client.Options{Scheme: t.Client.Scheme(), Mapper: t.Client.RESTMapper()},
	)
	if err != nil {
		return nil, fmt.Errorf("making a client of target %q: %w", t.Key, err)
	}
	return &Objects{t, live}, nil
}

// ListerWatcher lists and watches objects of a list's type, for one reflector. The caller puts what it keeps of them on
// the target's Account.
func (o *Objects) ListerWatcher(list client.ObjectList, options ...client.ListOption) toolscache.ListerWatcher {
	return o.target.Gate.ListerWatcher(watch.ListerWatcher(o.live, list, options...))
}

// NewInformer returns an informer of objects of a kind and its list's type. The objects are on the target's Account.
func (o *Objects) NewInformer(
	kind client.Object, list client.ObjectList, options ...client.ListOption,
) toolscache.SharedIndexInformer {
	informer := toolscache.NewSharedIndexInformer(o.ListerWatcher(list, options...), kind, 0, toolscache.Indexers{})
	_ = o.target.Account.KeepAllOf(informer, sizeOf) // It does not fail on an informer that has not started.
	return informer
}

// sizeOf returns about the bytes that are kept of an object.
func sizeOf(object any) int64 {
	const fixed = 1 << 10
	if o, ok := object.(interface{ Size() int }); ok {
		return fixed + int64(o.Size())
	}
	return wire.Default().Object
}
