package simulation

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// keys are those of the source. They are older than all proxies, so each PodChaperon has a proof.
var keys = proof.Generate(time.Unix(0, 0))

// newGate returns the product's gate for a target. proxies is the manager's cache.
func newGate(key types.NamespacedName, proxies client.Reader) *gate.Gate {
	return &gate.Gate{
		Key: key, NodeName: translate.VirtualNodeName(key), Verifier: keys, Proxies: proxies,
		Allows: func(string) bool { return true },
	}
}

// gated is the list and the watch of a cache behind the gate.
type gated struct {
	// selects says which objects the API server lists.
	selects func(client.Object) bool
	through toolscache.ListerWatcherWithContext
	ctx     context.Context //nolint:containedctx // The watch ends with it.
	events  *watch.FakeWatcher
	passed  watch.Interface
}

// newGated returns the PodChaperons that a target's API server lists, behind the gate. The server's own cache may lag:
// see apiServer.
func newGated(ctx context.Context, g *gate.Gate, of view, selects func(client.Object) bool) *gated {
	to := &gated{selects: selects, ctx: ctx}
	to.through = toolscache.ToListerWatcherWithContext(g.ListerWatcher(&apiServer{of, to}))
	return to
}

// list returns what passes of a list that a reflector asks for with this version, and the number of changes that it
// has. Then it begins to watch.
func (g *gated) list(version string) ([]client.Object, int) {
	list, err := g.through.ListWithContext(g.ctx, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		panic(err)
	}
	chaperons, _ := list.(*v1alpha1.PodChaperonList)
	objects := make([]client.Object, len(chaperons.Items))
	for i := range chaperons.Items {
		objects[i] = &chaperons.Items[i]
	}
	seen, err := strconv.Atoi(chaperons.ResourceVersion)
	if err != nil {
		panic(err)
	}
	if g.passed != nil {
		g.passed.Stop()
	}
	g.events = watch.NewFake()
	g.passed, err = g.through.WatchWithContext(g.ctx, metav1.ListOptions{ResourceVersion: chaperons.ResourceVersion})
	if err != nil {
		panic(err)
	}
	context.AfterFunc(g.ctx, g.passed.Stop)
	return objects, seen
}

// pass returns what the gate makes of a change.
func (g *gated) pass(now change) watch.Event {
	kind := watch.Modified
	switch {
	case now.after == nil:
		kind = watch.Deleted
	case now.before == nil:
		kind = watch.Added
	}
	g.events.Action(kind, copyOf(now.object()))
	return <-g.passed.ResultChan()
}

// apiServer lists objects for reflectors. Its own cache may lack some changes. It answers from there if the reflector
// takes a list of any time, as API servers do that do not offer lists as watches.
type apiServer struct {
	view

	to *gated
}

// List lists PodChaperons. The version of the list is the number of changes that it has.
func (s *apiServer) List(options metav1.ListOptions) (runtime.Object, error) {
	changes := s.from.logs[s.kind]
	objects := s.from.objects
	if options.ResourceVersion == anyTime && s.ago > 0 {
		changes = changes[:len(changes)-s.ago]
		objects = after(changes)
	}
	chaperons := &v1alpha1.PodChaperonList{}
	chaperons.ResourceVersion = strconv.Itoa(len(changes))
	for _, o := range sorted(objects) {
		if chaperon, ok := copyOf(o).(*v1alpha1.PodChaperon); ok && s.to.selects(o) {
			chaperons.Items = append(chaperons.Items, *chaperon)
		}
	}
	return chaperons, nil
}

// after returns the objects that there were after some changes.
func after(changes []change) map[ref]client.Object {
	objects := map[ref]client.Object{}
	for _, now := range changes {
		if now.after == nil {
			delete(objects, refOf(now.before))
		} else {
			objects[refOf(now.after)] = now.after
		}
	}
	return objects
}

// Watch watches.
func (s *apiServer) Watch(metav1.ListOptions) (watch.Interface, error) { return s.to.events, nil }
