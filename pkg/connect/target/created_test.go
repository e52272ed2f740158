package target

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
)

// A list of all namespaces takes one request. A source that may not list them all asks for each one.
func TestPodChaperonsAreLookedForWhereTheyWereCreated(t *testing.T) {
	for name, test := range map[string]struct {
		target  *engage.Target
		created []string // the namespaces
		want    []string // the namespaces that are asked for
	}{
		"nothing was created": {target: &engage.Target{}},
		"all namespaces are shown": {
			target: &engage.Target{}, created: []string{"shop", "team"}, want: []string{""},
		},
		"those of a Target": {
			target: &engage.Target{Key: inShop}, created: []string{"shop"}, want: []string{"shop"},
		},
		"not all are shown": {
			target: &engage.Target{Copied: &engage.Copied{}}, created: []string{"a", "b"}, want: []string{"a", "b"},
		},
		"not all are shown, and nothing was created": {target: &engage.Target{Copied: &engage.Copied{}}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			there := fakeOf(t, interceptor.Funcs{List: func(
				_ context.Context, _ client.WithWatch, _ client.ObjectList, options ...client.ListOption,
			) error {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, (&client.ListOptions{}).ApplyOptions(options).Namespace)
				return nil
			}})
			f := newFixture(t, http.StatusUnauthorized)
			l := newLoop(f.connections, test.target.Key, f.refuser, nil)
			for _, namespace := range test.created {
				if err := l.creations.begin(&creator{}, namespace); err != nil {
					t.Fatal(err)
				}
			}
			target := test.target
			target.Client, target.APIReader = there, there
			left, err := l.deleteCreated(t.Context(), target, true)
			if slices.Sort(asked); left != 0 || err != nil || !slices.Equal(asked, test.want) {
				t.Errorf("%d stay, error %v; asked in %q, want %q", left, err, asked, test.want)
			}
		})
	}
}

var inShop = types.NamespacedName{Namespace: "shop", Name: "c2"}

func TestPodChaperonsThatMayBeCreatedCount(t *testing.T) {
	l := newLeaving(t)
	for range 2 {
		if err := l.loop.creations.begin(&creator{}, "shop"); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.loop.counted(t.Context()); got != 5 {
		t.Errorf("3 are there, and 2 are under way: counted %d", got)
	}
}

func TestACopyOfAnotherTargetIsLeftThere(t *testing.T) {
	for owner, want := range map[string]bool{"c2": false, "c3": true} {
		l := newLeaving(t)
		named := func(c *v1alpha1.PodChaperon) { c.Name = "web" }
		service := &corev1.Service{ObjectMeta: stray(owner, named).ObjectMeta}
		if err := l.there.Create(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		l.copies = append(l.copies, metav1.PartialObjectMetadata{ObjectMeta: service.ObjectMeta})
		target := l.loop.engaged.target
		target.Gate = &gate.Gate{Verifier: noProofs{}}
		kind := corev1.SchemeGroupVersion.WithKind("Service")
		if err := l.loop.deleteCopiesOfKind(t.Context(), target, kind); err != nil {
			t.Fatal(err)
		}
		err := l.there.Get(t.Context(), client.ObjectKeyFromObject(service), service)
		if stays := err == nil; stays != want {
			t.Errorf("a copy of %s stays: %t, want %t (%v)", owner, stays, want, err)
		}
	}
}
