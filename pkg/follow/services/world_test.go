package services

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// schedulerOfMetadata is an annotation that has a pod's scheduler: the fake client sees only the metadata of pods.
const schedulerOfMetadata = "scheduler"

// server stands for an API server. It has objects, answers writes, and notes them instead of doing them.
type server struct {
	client.WithWatch

	mu      sync.Mutex // guards all that follows
	writes  []string
	made    client.Object      // the last one to be created
	answers map[string][]error // by the verb, kind and name of a write, in order; the last one stays
}

func newServer(objects ...client.Object) *server {
	s := &server{answers: map[string][]error{}}
	scheduler := func(o client.Object) []string { return []string{o.GetAnnotations()[schedulerOfMetadata]} }
	s.WithWatch = fake.NewClientBuilder().WithObjects(objects...).WithReturnManagedFields().WithIndex(
		&corev1.Pod{}, "spec.schedulerName", scheduler,
	).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, isName := o.(*authenticationv1.SelfSubjectReview); isName {
				return nil
			}
			if (&client.CreateOptions{}).ApplyOptions(options).DryRun != nil {
				return s.note("try to create", o, "")
			}
			s.mu.Lock()
			s.made = o
			s.mu.Unlock()
			return s.note("create", o, "")
		},
		Patch: func(
			_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption,
		) error {
			data, err := p.Data(o)
			if err != nil {
				return err
			}
			if (&client.PatchOptions{}).ApplyOptions(options).DryRun != nil {
				return s.note("try to patch", o, operations(data))
			}
			return s.note("patch", o, operations(data))
		},
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			only := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
			if only == nil || only.UID == nil || only.ResourceVersion == nil {
				return s.note("delete whatever is", o, "")
			}
			return s.note("delete", o, "")
		},
		Apply: func(
			_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, _ ...client.ApplyOption,
		) error {
			data, err := json.Marshal(o)
			applied := &unstructured.Unstructured{}
			if err == nil {
				err = applied.UnmarshalJSON(data)
			}
			if err != nil {
				return err
			}
			selector, _, _ := unstructured.NestedStringMap(applied.Object, "spec", "selector")
			return s.note("apply", applied, metav1.FormatLabelSelector(metav1.SetAsLabelSelector(selector)))
		},
	}).Build()
	return s
}

// operations returns the operations and paths of a JSON patch, and another patch as it is.
func operations(data []byte) string {
	var all []struct{ Op, Path string }
	if json.Unmarshal(data, &all) != nil {
		return string(data)
	}
	var words []string
	for _, o := range all {
		name := o.Path[strings.LastIndex(o.Path, "/")+1:]
		words = append(words, o.Op+" "+strings.TrimPrefix(name, v1alpha1.GroupName+"~1"))
	}
	return strings.Join(words, ", ")
}

func (s *server) note(verb string, object client.Object, more string) error {
	kind, err := apiutil.GVKForObject(object, s.Scheme())
	if err != nil {
		return err
	}
	what := verb + " " + kind.Kind + " " + object.GetName()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, strings.TrimSuffix(what+": "+more, ": "))
	answers := s.answers[what]
	if len(answers) == 0 {
		return nil
	}
	if len(answers) > 1 {
		s.answers[what] = answers[1:]
	}
	return answers[0]
}

// alwaysOurs is a gate.Verifier of a source without copies of earlier versions.
type alwaysOurs struct{}

func (alwaysOurs) Verify(proof.Claim, string) bool { return true }
func (alwaysOurs) CreatedAt() time.Time            { return time.Time{} }

// world is a Follower whose source has an enabled namespace, shop, and the engaged target c2.
type world struct {
	*Follower

	source *server
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	c2     *copier
	// there is the API server of c2.
	there *server
}

// newWorld makes a world in which the cache of the source has the objects from, and that of c2 the objects copies. A
// Node among the former is virtual.
func newWorld(t *testing.T, from, copies []client.Object) *world {
	t.Helper()
	w := &world{
		source: newServer(), clock: clocktesting.NewFakePassiveClock(time.Unix(10000, 0)),
		events: events.NewFakeRecorder(10),
	}
	w.Follower = &Follower{
		options: Options{
			Client: w.source, APIReader: w.source, Source: translate.Source{ClusterID: "c1"}, Clock: w.clock,
			Recorder: w.events, Logger: logr.Discard(),
		},
		originals: originalsOf(t, from...),
		idle:      map[types.NamespacedName]time.Time{},
		disputes:  map[types.NamespacedName]dispute{},
	}
	w.selectors = w.newWorkers(nil, logr.Discard())
	w.c2, w.there = w.engage(t, &engage.Target{Key: types.NamespacedName{Name: "c2"}, NodeName: "admiralty-c2"})
	w.c2.existing[""] = copiesOf(t, copies...)
	return w
}

// engage engages a target that has these objects, and no copies in its cache.
func (w *world) engage(t *testing.T, target *engage.Target, objects ...client.Object) (*copier, *server) {
	t.Helper()
	s := newServer(objects...)
	target.Client, target.APIReader, target.Gate = s, s, &gate.Gate{Verifier: alwaysOurs{}}
	c := w.newCopier(t.Context(), target)
	c.objects = func() (*engage.Objects, error) { return nil, nil } //nolint:nilnil // the watches run already
	w.copiers.Set(t.Context(), target, c)
	return c, s
}

// restart replaces the source's API server by one that has these objects.
func (w *world) restart(objects ...client.Object) {
	w.source = newServer(objects...)
	w.options.Client, w.options.APIReader = w.source, w.source
}

// listed is an informer that has listed its objects and does not run.
type listed struct{ toolscache.SharedIndexInformer }

func (listed) HasSynced() bool { return true }

// informerOf returns an informer that has listed those of the objects that are of a kind.
func informerOf[T client.Object](
	t *testing.T, kind T, objects []client.Object, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(fcache.NewFakeControllerSource(), kind, 0, indexers)
	for _, object := range objects {
		if _, ok := object.(T); !ok {
			continue
		}
		if err := informer.GetIndexer().Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return listed{informer}
}

func byService() toolscache.Indexers { return toolscache.Indexers{indexService: serviceOf} }

// originalsOf returns the objects of the enabled namespace shop, and the virtual nodes.
func originalsOf(t *testing.T, objects ...client.Object) *originals {
	t.Helper()
	var nodes, exports []client.Object
	for _, object := range objects {
		if o, ok := object.(*metav1.PartialObjectMetadata); ok && o.Kind == "Node" {
			nodes = append(nodes, object)
		} else if ok {
			exports = append(exports, object)
		}
	}
	n := &enabledNamespace{
		end:       func() {},
		services:  informerOf(t, &corev1.Service{}, objects, nil),
		slices:    informerOf(t, &discoveryv1.EndpointSlice{}, objects, byService()),
		ingresses: informerOf(t, &networkingv1.Ingress{}, objects, nil),
		exported:  informerOf(t, &metav1.PartialObjectMetadata{}, exports, nil),
	}
	return &originals{
		listed: true, enabled: map[string]*enabledNamespace{"shop": n}, changed: func(item) {}, known: func(string) {},
		nodes: informerOf(t, &metav1.PartialObjectMetadata{}, nodes, nil),
	}
}

// copiesOf returns copies that are listed.
func copiesOf(t *testing.T, objects ...client.Object) *existing {
	t.Helper()
	e := &existing{
		services:       informerOf(t, &corev1.Service{}, objects, nil),
		slices:         informerOf(t, &discoveryv1.EndpointSlice{}, objects, byService()),
		ingresses:      informerOf(t, &networkingv1.Ingress{}, objects, nil),
		watchIngresses: func() {}, stop: func() {},
	}
	e.ofServices.init()
	e.ofIngresses.init()
	return e
}

// queued returns the items that workers would take now.
func queued(workers *engage.Workers[item]) []item {
	var items []item
	for workers.Queue.Len() > 0 {
		i, _ := workers.Queue.Get()
		workers.Queue.Done(i)
		items = append(items, i)
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(string(a.kind)+a.Name, string(b.kind)+b.Name) })
	return items
}

func shop(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

func virtualNode(name string) client.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

// endpointsOf returns an EndpointSlice of the Service web with one pod on a node.
func endpointsOf(name, node string, options ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod"},
		}},
	}
	for _, option := range options {
		option(slice)
	}
	return slice
}

// madeFor marks a copy as that of a target.
func madeFor[T client.Object](object T, target string) T {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelTargetID] = translate.TargetID(types.NamespacedName{Name: target})
	object.SetLabels(labels)
	annotations := map[string]string{v1alpha1.AnnotationFollowedBy: "c1"}
	maps.Copy(annotations, object.GetAnnotations())
	object.SetAnnotations(annotations)
	object.SetUID(types.UID("uid-" + object.GetName()))
	return object
}
