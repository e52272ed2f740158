package claims

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// endless is a target whose PodChaperons have no end. It shows no claim.
type endless struct{}

func (endless) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (endless) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.SetContinue("next")
	return ctx.Err()
}

func TestPodChaperonsAreNotListedForEver(t *testing.T) {
	for name, test := range map[string]struct {
		target client.Reader
		used   bool
		after  time.Duration
	}{
		"a target that answers at once":        {target: endless{}, used: true},
		"a target that takes its time":         {target: slowly{time: 9 * time.Second}, after: usedWithin},
		"a target that does not answer at all": {target: slowly{time: time.Hour}, after: timeouts.Request},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, began := &cluster{target: &engage.Target{APIReader: test.target}}, time.Now()
				used, err := c.uses(t.Context(), keyOfData, "")
				if after := time.Since(began); used != test.used || (err == nil) != test.used || after != test.after {
					t.Errorf("used: %t, error %v, after %s", used, err, after)
				}
			})
		})
	}
}

// slowly is endless, and takes its time for each page.
type slowly struct {
	endless

	time time.Duration
}

func (s slowly) List(ctx context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.SetContinue("next")
	select {
	case <-time.After(s.time):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pages is a target with more PodChaperons than one page has.
type pages []v1alpha1.PodChaperon

func (pages) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (p pages) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(options)
	found, ok := list.(*v1alpha1.PodChaperonList)
	if !ok || asked.Namespace != "shop" || asked.Limit == 0 {
		return errors.New("it is asked for something else")
	}
	for i := range p {
		if asked.Continue == "" || asked.Continue == p[i].Name {
			found.Items = append(found.Items, p[i])
			if i+1 < len(p) {
				found.Continue = p[i+1].Name
			}
			return nil
		}
	}
	return errors.New("there is no such page")
}

func TestAllPagesOfPodChaperonsAreRead(t *testing.T) {
	w := newWorld(t)
	got := map[string]bool{}
	for _, claim := range []string{"first", "last", "none", "other"} {
		w.c2.target.APIReader = pages{
			*chaperonWith("a", "first"), *chaperonWith("b", "other"), *chaperonWith("c", "last"),
		}
		key := keyOfData
		key.Name = claim
		used, err := w.c2.uses(t.Context(), key, "b")
		if err != nil {
			t.Fatal(err)
		}
		got[claim] = used
	}
	if diff := cmp.Diff(map[string]bool{"first": true, "last": true, "none": false, "other": false}, got); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}
