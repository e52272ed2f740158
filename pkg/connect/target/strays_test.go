package target

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func fakeOf(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// stray returns a PodChaperon of the pod shop/web, as this source made it for a target.
func stray(target string, changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	key := types.NamespacedName{Name: target}
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", UID: "c",
		Labels: map[string]string{
			v1alpha1.LabelParentClusterID: "c1", v1alpha1.LabelParentUID: "p",
			v1alpha1.LabelTargetID: translate.TargetID(key), v1alpha1.LabelTargetHash: translate.TargetHash(key),
		},
		Annotations: map[string]string{
			v1alpha1.AnnotationParentNamespace: "shop", v1alpha1.AnnotationParentName: "web",
		},
	}}
	for _, change := range changes {
		change(chaperon)
	}
	return chaperon
}

func TestPodChaperonsOfTargetsThatDoNotExistEnd(t *testing.T) {
	unlabelled := func(key string) func(*v1alpha1.PodChaperon) {
		return func(c *v1alpha1.PodChaperon) { delete(c.Labels, key) }
	}
	proxy := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p"}}
	next := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "q"}}
	on := func(node string) *corev1.Pod {
		bound := proxy.DeepCopy()
		bound.Spec.NodeName = node
		return bound
	}
	made := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "former"}}
	elsewhere := &v1alpha1.ClusterTarget{
		ObjectMeta: metav1.ObjectMeta{Name: "c3"}, Status: v1alpha1.TargetStatus{ClusterID: "c3-id"},
	}
	sibling := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "eu"},
		Status:     v1alpha1.TargetStatus{ClusterID: "c2-id"},
	}
	unconnected := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c4"}}
	failing := interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no")
		},
	}
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		source   []client.Object
		cached   []client.Object
		funcs    interceptor.Funcs
		ended    bool
		left     bool
	}{
		"its target was renamed":       {chaperon: stray("former"), ended: true},
		"its name has another pod now": {chaperon: stray("former"), source: []client.Object{next}, ended: true},
		"its proxy is not bound":       {chaperon: stray("former"), source: []client.Object{proxy}, left: true},
		"its proxy is bound to the former name": {
			chaperon: stray("former"), source: []client.Object{on("admiralty-former"), elsewhere}, left: true,
		},
		"its proxy runs in another target": {
			chaperon: stray("former"), source: []client.Object{on("admiralty-c3"), elsewhere}, ended: true,
		},
		"its proxy runs in another target, as the cache says": {
			chaperon: stray("former"), cached: []client.Object{on("admiralty-c3")}, source: []client.Object{elsewhere},
			ended: true,
		},
		"its proxy runs in another target that is gone, too": {
			chaperon: stray("former"), cached: []client.Object{on("admiralty-c3"), elsewhere}, left: true,
		},
		"its proxy is bound to a target that was never connected": {
			chaperon: stray("former"), source: []client.Object{on("admiralty-c4"), unconnected}, ended: true,
		},
		"its proxy runs in this target, under changed labels": {
			chaperon: stray("former"), source: []client.Object{on("admiralty-c2")}, left: true,
		},
		"its proxy runs in another target of the cluster, under changed labels": {
			chaperon: stray("former"), source: []client.Object{on("admiralty-shop-eu"), sibling}, left: true,
		},
		"the source's cache has its proxy": {
			chaperon: stray("former"), cached: []client.Object{proxy}, left: true,
			funcs: interceptor.Funcs{Get: func(
				context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
			) error {
				return errors.New("the API server is asked")
			}},
		},
		"the cache has an earlier pod of the name": {
			chaperon: stray("former"), cached: []client.Object{next}, ended: true,
		},
		"its marks are longer than they can be": {
			chaperon: stray("former", func(c *v1alpha1.PodChaperon) {
				c.Annotations[v1alpha1.AnnotationParentName] = strings.Repeat("x", 254)
			}),
		},
		"its target exists":               {chaperon: stray("former"), source: []client.Object{made}},
		"it is the target's own":          {chaperon: stray("c2")},
		"an old one whose target is gone": {chaperon: stray("former", unlabelled(v1alpha1.LabelTargetID)), ended: true},
		"an old one of the target":        {chaperon: stray("c2", unlabelled(v1alpha1.LabelTargetID))},
		"it is of another source":         {chaperon: stray("former", ofAnotherSource)},
		"it names no pod":                 {chaperon: stray("former", nameless)},
		"the source cannot be asked":      {chaperon: stray("former"), funcs: failing, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			there := fakeOf(t, interceptor.Funcs{}, test.chaperon)
			// The cache of the source knows no target but this one: the API server's answer decides.
			cached := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
			s := &strays{
				options: Options{
					Client:    fakeOf(t, interceptor.Funcs{}, append(test.cached, cached)...),
					APIReader: fakeOf(t, test.funcs, append(test.source, cached.DeepCopy())...),
				},
				target: &engage.Target{
					Key: types.NamespacedName{Name: "c2"}, NodeName: "admiralty-c2", ClusterID: "c2-id", Client: there,
				},
				live: there,
			}
			s.options.Source.ClusterID = "c1"
			left, err := s.endThose(t.Context())
			if failed := err != nil; failed != (test.funcs.List != nil) || left != test.left {
				t.Errorf("left %t, want %t: %v", left, test.left, err)
			}
			err = there.Get(t.Context(), client.ObjectKeyFromObject(test.chaperon), &v1alpha1.PodChaperon{})
			if ended := err != nil; ended != test.ended {
				t.Errorf("ended %t, want %t", ended, test.ended)
			}
		})
	}
}

func ofAnotherSource(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelParentClusterID] = "another" }

func nameless(c *v1alpha1.PodChaperon) { c.Annotations = nil }

func TestManyTargetsAreNotNamedInASelector(t *testing.T) {
	s := &strays{target: &engage.Target{Key: types.NamespacedName{Name: "c2"}}}
	s.options.Source.ClusterID = "c1"
	var objects []client.Object
	for i := range namedTargets + 1 {
		objects = append(objects, &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("t%d", i)}})
	}
	for count, want := range map[int]int{1: 2, namedTargets: namedTargets + 1, namedTargets + 1: 1} {
		known, err := s.targets(t.Context(), fakeOf(t, interceptor.Funcs{}, objects[:count]...))
		if err != nil {
			t.Fatal(err)
		}
		of, err := s.selector(known)
		if err != nil {
			t.Fatal(err)
		}
		requirements, _ := of.Requirements()
		if got := requirements[1].Values().Len(); got != want {
			t.Errorf("of %d targets, %d are named, want %d", count, got, want)
		}
	}
}

// TestStraysAreReadSoManyAtATime has namespaces of 3,000 strays each, in pages of strayPage.
func TestStraysAreReadSoManyAtATime(t *testing.T) {
	const each = 6 * strayPage
	large := strings.Repeat("x", 1000)
	var read []string
	list := func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		asked := (&client.ListOptions{}).ApplyOptions(options)
		page, _ := strconv.Atoi(asked.Continue)
		if page == 0 {
			read = append(read, asked.Namespace)
		}
		into := list.(*metav1.PartialObjectMetadataList) //nolint:forcetypeassert // It is a test.
		for i := range asked.Limit {
			made := stray("former").ObjectMeta
			made.Namespace, made.Name = asked.Namespace, fmt.Sprintf("web-%d-%d", page, i)
			made.Annotations[v1alpha1.AnnotationParentNamespace], made.Annotations["large"] = asked.Namespace, large
			into.Items = append(into.Items, metav1.PartialObjectMetadata{ObjectMeta: made})
		}
		if page++; page*strayPage < each {
			into.Continue = strconv.Itoa(page)
		}
		return nil
	}
	key := types.NamespacedName{Name: "c2"}
	s := &strays{
		options: Options{Client: fakeOf(t, interceptor.Funcs{})},
		target:  &engage.Target{Key: key, Copied: engage.NewCopied(nil)},
		live:    fakeOf(t, interceptor.Funcs{List: list}),
	}
	s.options.Source.ClusterID = "c1"
	for i := range 6 {
		s.target.Copied.Note(fmt.Sprintf("n%d", i))
	}
	for _, want := range [][]string{{"n0", "n1", "n2", "n3"}, {"n4", "n5", "n0", "n1"}, {"n2", "n3", "n4", "n5"}} {
		read = nil
		found, more, err := s.list(t.Context())
		if err != nil || !more || len(found) != strayPage*strayPages {
			t.Fatalf("%d found, more %t: %v", len(found), more, err)
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Errorf("namespaces that were read (-want +got):\n%s", diff)
		}
	}
}
