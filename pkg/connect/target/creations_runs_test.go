package target

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// A run has at most so many requests to create PodChaperons. They begin within beginWithin, and the (Cluster)Target
// is deleted meanwhile.
const (
	runs, requestsOfARun = 200, 12
	beginWithin          = 20 * time.Second
)

// deletion is one run: a target to which requests are under way while it is left.
type deletion struct {
	*rand.Rand
	*testing.T

	there client.Client // the API server
	loop  *loop
	// engagements are the clients of an earlier engagement, and of the one that is left.
	engagements [2]*creator

	mu    sync.Mutex           // guards shown
	shown map[string]time.Time // when the cache shows each PodChaperon
}

func newDeletion(t *testing.T, seed uint64) *deletion {
	t.Helper()
	d := &deletion{Rand: rand.New(rand.NewPCG(seed, 0)), T: t, shown: map[string]time.Time{}}
	d.there = fakeOf(t, interceptor.Funcs{})
	cached := d.cache()
	options := Options{
		Clock: clock.RealClock{}, Registry: engage.NewRegistry(), Recorder: events.NewFakeRecorder(10),
		Source: translate.Source{ClusterID: "c1"},
	}
	key := types.NamespacedName{Name: "c2"}
	d.loop = newLoop(newConnections(options, func(types.NamespacedName) {}), key, want{}, nil)
	for i := range d.engagements {
		d.engagements[i] = &creator{Client: cached, all: d.loop.creations}
	}
	d.loop.engaged = &engagement{
		target:  &engage.Target{Key: key, Client: d.engagements[1], APIReader: d.there},
		creator: d.engagements[1], identity: identity.New("c2-id"), end: func() {},
	}
	return d
}

// cache is a client that creates as some requests end, and shows PodChaperons late.
func (d *deletion) cache() client.Client {
	return interceptor.NewClient(d.there.(client.WithWatch), interceptor.Funcs{ //nolint:forcetypeassert // a fake
		Create: func(
			ctx context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption,
		) error {
			return ctx.Value(requestKey{}).(func(client.Object) error)(o) //nolint:forcetypeassert // set by begin
		},
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			err := c.List(ctx, list, options...)
			if shown, ok := list.(*v1alpha1.PodChaperonList); ok {
				d.hide(shown)
			}
			return err
		},
	})
}

type requestKey struct{}

// hide leaves out what the cache does not show yet.
func (d *deletion) hide(list *v1alpha1.PodChaperonList) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var items []v1alpha1.PodChaperon
	for _, one := range list.Items {
		if !d.shown[one.Name].After(time.Now()) {
			items = append(items, one)
		}
	}
	list.Items = items
}

func (d *deletion) within(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most)))
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // The clock is the bubble's.

// begin begins a request some time later. The request is answered or not, and carried out or not.
func (d *deletion) begin(i int) {
	later, lasts, lag := d.within(beginWithin), d.within(timeouts.Request), d.within(5*time.Second)
	by, kind := d.engagements[d.IntN(2)], d.IntN(4)
	carried := d.within(lasts + carriedOutWithin) // of a request without an answer
	carryOut := func(o client.Object) {
		d.mu.Lock()
		d.shown[o.GetName()] = time.Now().Add(lag)
		d.mu.Unlock()
		if err := d.there.Create(d.Context(), o); err != nil {
			d.Error(err)
		}
	}
	request := func(o client.Object) error {
		switch kind {
		case 0: // It is refused.
			pass(lasts)
			return apierrors.NewBadRequest("no")
		case 1: // It is lost.
			pass(lasts)
			return context.DeadlineExceeded
		case 2: // It has no answer, and is carried out.
			time.AfterFunc(carried, func() { carryOut(o) })
			pass(lasts)
			return errors.New("the connection was closed")
		default:
			pass(lasts / 2)
			carryOut(o)
			pass(lasts / 2)
			return nil
		}
	}
	made := stray("c2", func(c *v1alpha1.PodChaperon) { c.Name, c.UID = fmt.Sprintf("web-%d", i), "" })
	time.AfterFunc(later, func() {
		ctx := context.WithValue(d.Context(), requestKey{}, request)
		_ = by.Create(ctx, made)
	})
}

func TestNothingIsLeftInADeletedTargetWhateverBecomesOfRequests(t *testing.T) {
	for seed := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			d := newDeletion(t, seed)
			for i := range 1 + d.IntN(requestsOfARun) {
				d.begin(i)
			}
			pass(d.within(beginWithin / 2))
			d.engagements[0].stop() // The target is engaged anew.
			pass(d.within(beginWithin / 2))
			d.loop.leave(t.Context(), t.Context(), &want{})
			pass(time.Hour) // Every request has ended, and was carried out or not.
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperonList"))
			if err := d.there.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			if len(list.Items) > 0 {
				t.Errorf("run %d: %d PodChaperons stay", seed, len(list.Items))
			}
		})
	}
}
