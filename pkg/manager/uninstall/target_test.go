package uninstall

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDecideChaperons(t *testing.T) {
	const notice = 40 * time.Second
	stopped := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		left         int
		after, since time.Duration // of the manager's stop, and of the last PodChaperon
		remove, done bool
	}{
		"sources may place more":                        {left: 3, after: 39 * time.Second},
		"sources may place the first one":               {after: 39 * time.Second, since: 39 * time.Second},
		"sources place no more":                         {left: 3, after: 40 * time.Second, remove: true},
		"a source may not have seen that they are gone": {after: 50 * time.Second, since: 9 * time.Second},
		"sources have seen that they are gone":          {after: 50 * time.Second, since: 10 * time.Second, done: true},
		"there were none":                               {after: 40 * time.Second, since: 40 * time.Second, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			now := stopped.Add(test.after)
			remove, done := decideChaperons(test.left, now, stopped, now.Add(-test.since), notice)
			if remove != test.remove || done != test.done {
				t.Errorf("remove: %t, done: %t", remove, done)
			}
		})
	}
}

func TestWithoutTimeToEndDelegatesTheirCopiesStay(t *testing.T) {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	for name, left := range map[string]time.Duration{"none": 0, "less than sources need": notice} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, left, chaperon)
			if err := c.endDelegates(t.Context(), c.clock.Now()); !errors.Is(err, errNoTime) {
				t.Errorf("got %v", err)
			}
			if len(c.done)+len(c.copies.Actions()) > 0 {
				t.Errorf("it did %q to PodChaperons, and %v to copies", c.done, c.copies.Actions())
			}
		})
	}
}

func TestAClusterWithoutOurKindsHasNoSources(t *testing.T) {
	none := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.GroupVersion.Group}}
	c := newCluster(t, time.Hour)
	c.client = interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return none },
	})
	if unused, err := c.unused(t.Context()); err != nil || !unused {
		t.Errorf("unused: %t, %v", unused, err)
	}
}

func TestProxiesAreWaitedForAsLongAsDelegatesOfSourcesCanEndAfterwards(t *testing.T) {
	const after = stopTimeout + notice
	for name, test := range map[string]struct {
		timeout       time.Duration
		endsDelegates bool
		least, most   time.Duration
	}{
		"there are no delegates of sources": {3 * time.Minute, false, 90 * time.Second, 90 * time.Second},
		"the chart's default":               {3 * time.Minute, true, time.Minute, 3*time.Minute - after},
		"the least that the chart takes":    {150 * time.Second, true, 30 * time.Second, 150*time.Second - after},
		"much time":                         {time.Hour, true, 30 * time.Minute, 30 * time.Minute},
		"too little time":                   {5 * time.Second, true, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := patience(test.timeout, notice, test.endsDelegates)
			if got < test.least || got > test.most {
				t.Errorf("got %s, want %s to %s", got, test.least, test.most)
			}
		})
	}
}

func TestWhetherAClusterHasSources(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"a ClusterSource": {&v1alpha1.ClusterSource{ObjectMeta: named("", "c1")}},
		"a Source":        {&v1alpha1.Source{ObjectMeta: named("shop", "c1")}},
		"a PodChaperon":   {&v1alpha1.PodChaperon{ObjectMeta: named("shop", "of-a-source")}},
		"nothing":         nil,
	} {
		unused, err := newCluster(t, time.Hour, objects...).unused(t.Context())
		if err != nil || unused != (len(objects) == 0) {
			t.Errorf("with %s, it is unused: %t, %v", name, unused, err)
		}
	}
}

// TestDelegatesOfSourcesEndOnceSourcesHaveNoticed has a PodChaperon that takes 20 s to end, and one that somebody else
// deletes before.
func TestDelegatesOfSourcesEndOnceSourcesHaveNoticed(t *testing.T) {
	slow := func(name string) *v1alpha1.PodChaperon {
		chaperon := &v1alpha1.PodChaperon{ObjectMeta: named("shop", name)}
		chaperon.Finalizers = []string{"foregroundDeletion"}
		return chaperon
	}
	for name, test := range map[string]struct {
		time, takes time.Duration
		ends        bool
	}{
		"there is time":         {time.Hour, notice + 19*time.Second + notice/4, true},
		"there is not so much":  {notice + 10*time.Second, notice + 10*time.Second, false},
		"there is little after": {notice + interval, notice + interval, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, test.time, slow("a"), slow("b"))
				if err := c.client.Delete(t.Context(), slow("b")); err != nil {
					t.Fatal(err)
				}
				c.done = nil
				began := time.Now()
				time.AfterFunc(notice+20*time.Second-time.Millisecond, func() {
					all := &v1alpha1.PodChaperonList{}
					_ = c.client.List(t.Context(), all)
					for i := range all.Items {
						all.Items[i].Finalizers = nil
						_ = c.client.Update(t.Context(), &all.Items[i])
					}
				})
				if err := c.deleteChaperons(t.Context(), began); err != nil {
					t.Error(err)
				}
				took := time.Since(began)
				if took < test.takes || took >= test.takes+interval+interval/4 {
					t.Errorf("it took %s, want %s", took, test.takes)
				}
				if diff := cmp.Diff([]string{"delete PodChaperon a"}, c.done); diff != "" {
					t.Errorf("unexpected writes (-want +got):\n%s", diff)
				}
				if got := !strings.Contains(c.logged.String(), "have not ended in time"); got != test.ends {
					t.Errorf("the log says that they have ended: %t", got)
				}
			})
		})
	}
}

func TestCopiesThatCannotBeDeletedAreAnError(t *testing.T) {
	c := newCluster(t, time.Hour)
	c.copies.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errRefused
	})
	if err := c.endDelegates(t.Context(), c.clock.Now()); !errors.Is(err, errRefused) {
		t.Errorf("error is %v", err)
	}
}
