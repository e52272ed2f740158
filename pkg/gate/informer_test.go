package gate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// server lists one list, and watches whatever the test sends. If lagging is not nil, it is what the watch cache has.
type server struct {
	list, lagging runtime.Object
	events        *watch.FakeWatcher
}

func (s *server) List(options metav1.ListOptions) (runtime.Object, error) {
	if s.lagging != nil && options.ResourceVersion == "0" {
		return s.lagging.DeepCopyObject(), nil
	}
	return s.list.DeepCopyObject(), nil
}
func (s *server) Watch(metav1.ListOptions) (watch.Interface, error) { return s.events, nil }
func (s *server) IsWatchListSemanticsUnSupported() bool             { return true }
func chaperonList(items ...*v1alpha1.PodChaperon) runtime.Object {
	list := &v1alpha1.PodChaperonList{}
	for _, item := range items {
		list.Items = append(list.Items, *item)
	}
	return list
}

// named returns a proxy of another name.
func named(name string) *corev1.Pod {
	return newProxy(func(pod *corev1.Pod) { pod.Name, pod.UID = name, types.UID("uid-of-"+name) })
}

func forgedName(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationParentName] = "forged" }

func version(version string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.ResourceVersion = version }
}

func TestListsHaveWhatPasses(t *testing.T) {
	web, gone := newProxy(), named("gone")
	from := &server{list: chaperonList(
		newChaperon(web), newChaperon(named("db"), forgedName), newChaperon(gone, unproven),
	)}
	list, err := cache.ToListerWithContext(newGate(t, web).ListerWatcher(from)).
		ListWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(proxy *corev1.Pod) types.NamespacedName {
		return types.NamespacedName{Namespace: proxy.Namespace, Name: proxy.Name}
	}
	var parents []Parent
	for _, item := range list.(*v1alpha1.PodChaperonList).Items {
		parents = append(parents, ParentOf(&item))
		if item.Spec.Containers != nil || len(item.Labels) != 1 {
			t.Errorf("fields that nobody reads are kept: %+v", item)
		}
	}
	want := []Parent{{Key: key(web), UID: web.UID}, {Key: key(gone), UID: gone.UID, Orphan: true}}
	if diff := cmp.Diff(want, parents); diff != "" {
		t.Errorf("parents (-want +got):\n%s", diff)
	}
}

// event is what a test compares of an event.
type event struct {
	Type    watch.EventType
	Name    string
	Version string
	Parent  Parent
}

func eventOf(e watch.Event) event {
	chaperon := e.Object.(*v1alpha1.PodChaperon)
	return event{e.Type, chaperon.Name, chaperon.ResourceVersion, ParentOf(chaperon)}
}

func TestWatchesTurnForgeriesIntoDeletions(t *testing.T) {
	web := newProxy()
	good := newChaperon(web)
	parent := ParentOf(good)
	filter := newGate(t, web).newFilter(&server{})
	for _, step := range []struct {
		name string
		in   watch.Event
		want event
	}{
		{"a forgery", watch.Event{Type: watch.Added, Object: newChaperon(web, forgedName, version("1"))},
			event{Type: watch.Bookmark, Version: "1"}},
		{"a deletion of what has not passed", watch.Event{Type: watch.Deleted, Object: newChaperon(web, version("2"))},
			event{Type: watch.Bookmark, Version: "2"}},
		{"ours", watch.Event{Type: watch.Added, Object: newChaperon(web, version("3"))},
			event{watch.Added, good.Name, "3", parent}},
		{"it becomes a forgery", watch.Event{Type: watch.Modified, Object: newChaperon(web, forgedName, version("4"))},
			event{watch.Deleted, good.Name, "4", parent}},
		{"it stays one", watch.Event{Type: watch.Modified, Object: newChaperon(web, forgedName, version("5"))},
			event{Type: watch.Bookmark, Version: "5"}},
		{"it is ours again", watch.Event{Type: watch.Modified, Object: newChaperon(web, version("6"))},
			event{watch.Modified, good.Name, "6", parent}},
		{
			"its deletion names another proxy",
			watch.Event{Type: watch.Deleted, Object: newChaperon(web, forgedName, version("7"))},
			event{watch.Deleted, good.Name, "7", parent}},
	} {
		out, keep := filter.pass(t.Context(), step.in)
		if !keep {
			t.Fatalf("%s: the event is dropped", step.name)
		}
		if diff := cmp.Diff(step.want, eventOf(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestWatchesHaveCopiesOfAllowedNamespacesOnly(t *testing.T) {
	filter := newGate(t).newFilter(&server{})
	for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		for namespace, want := range map[string]watch.EventType{
			"team": kind, "kube-system": watch.Bookmark, "": watch.Bookmark,
		} {
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", ResourceVersion: "9"},
			}
			out, keep := filter.pass(t.Context(), watch.Event{Type: kind, Object: service})
			if !keep || out.Type != want || out.Object.(*corev1.Service).ResourceVersion != "9" {
				t.Errorf("%s in %q: got %v, want %s", kind, namespace, out, want)
			}
		}
	}
	for _, kind := range []watch.EventType{watch.Bookmark, watch.Error} {
		if out, keep := filter.pass(
			t.Context(),
			watch.Event{Type: kind, Object: &metav1.Status{}},
		); !keep ||
			out.Type != kind {
			t.Errorf("%s: got %v, %t", kind, out, keep)
		}
	}
	if _, keep := filter.pass(t.Context(), watch.Event{Type: "UNKNOWN", Object: &corev1.Service{}}); keep {
		t.Error("an unknown event passes")
	}
}

func TestAListForgetsWhatHasPassedBefore(t *testing.T) {
	filter := newGate(t).newFilter(&server{list: chaperonList()})
	filter.pass(t.Context(), watch.Event{Type: watch.Added, Object: newChaperon(newProxy())})
	if _, err := filter.ListWithContext(
		t.Context(),
		metav1.ListOptions{Continue: "page 2"},
	); err != nil ||
		len(filter.passed) != 1 {
		t.Errorf("after a further page: %v, error %v", filter.passed, err)
	}
	if _, err := filter.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil || len(filter.passed) != 0 {
		t.Errorf("after a list: %v, error %v", filter.passed, err)
	}
}

func TestTheFirstListIsOfThePresent(t *testing.T) {
	web := newProxy()
	from := &server{list: chaperonList(newChaperon(web)), lagging: chaperonList(), events: watch.NewFake()}
	informer := newGate(t, web).NewInformer(from, &v1alpha1.PodChaperon{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(stopped) }()
	defer func() { cancel(); <-stopped }()
	if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
		t.Fatal("it has not synced")
	}
	if listed := informer.GetStore().ListKeys(); len(listed) != 1 {
		t.Errorf("a new leader sees %q, and its predecessor made one PodChaperon", listed)
	}
}

func TestAnInvalidSummaryLeavesTheLastValidOne(t *testing.T) {
	valid := validSummary()
	valid.ResourceVersion = "1"
	from := &server{
		list:   &v1alpha1.ClusterSummaryList{Items: []v1alpha1.ClusterSummary{*valid}},
		events: watch.NewFake(),
	}
	informer := newGate(t).NewInformer(from, &v1alpha1.ClusterSummary{}, 0, cache.Indexers{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(stopped) }()
	defer func() { cancel(); <-stopped }()
	send := func(version string, nodes int32) {
		next := validSummary()
		next.ResourceVersion, next.Status.Nodes = version, nodes
		from.events.Modify(next)
	}
	await := func(version string, nodes int32) {
		t.Helper()
		var last []any
		err := wait.PollUntilContextTimeout(
			ctx,
			time.Millisecond,
			time.Minute,
			true,
			func(context.Context) (bool, error) {
				last = informer.GetStore().List()
				return slices.ContainsFunc(last, func(o any) bool {
					summary := o.(*v1alpha1.ClusterSummary)
					return summary.ResourceVersion == version && summary.Status.Nodes == nodes
				}), nil
			},
		)
		if err != nil {
			t.Fatalf("the store has %v, want version %s with %d nodes", last, version, nodes)
		}
	}
	await("1", 50)
	send("2", -1)
	await("2", 50)
	send("3", 7)
	await("3", 7)
}

func TestACacheShowsWhetherADelegateIsToEnd(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        map[string]string
	}{
		"nobody asked": {map[string]string{"other": ""}, map[string]string{}},
		"its own grace period": {
			map[string]string{v1alpha1.AnnotationDeletionGracePeriod: ""},
			map[string]string{v1alpha1.AnnotationDeletionGracePeriod: ""},
		},
		"another grace period": {
			map[string]string{v1alpha1.AnnotationDeletionGracePeriod: "30"},
			map[string]string{v1alpha1.AnnotationDeletionGracePeriod: "30"},
		},
		"a withdrawal": {
			map[string]string{v1alpha1.AnnotationWithdrawn: "whatever"},
			map[string]string{v1alpha1.AnnotationWithdrawn: ""},
		},
		"a value without bound": {
			map[string]string{v1alpha1.AnnotationDeletionGracePeriod: strings.Repeat("3", 1000)},
			map[string]string{v1alpha1.AnnotationDeletionGracePeriod: strings.Repeat("3", maxGrace)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			chaperon := &v1alpha1.PodChaperon{}
			chaperon.Annotations = test.annotations
			strip(chaperon, false)
			delete(chaperon.Annotations, v1alpha1.AnnotationParentName)
			delete(chaperon.Annotations, v1alpha1.AnnotationParentNamespace)
			if diff := cmp.Diff(test.want, chaperon.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACacheShowsWhenADelegateIsFenced(t *testing.T) {
	for value, want := range map[string]string{"60": "60", strings.Repeat("3", 1000): strings.Repeat("3", maxGrace)} {
		chaperon := &v1alpha1.PodChaperon{}
		chaperon.Annotations = map[string]string{v1alpha1.AnnotationFenceAfter: value}
		strip(chaperon, false)
		if got := chaperon.Annotations[v1alpha1.AnnotationFenceAfter]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
