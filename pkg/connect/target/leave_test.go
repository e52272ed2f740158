package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestCopiesAreLeftToAnotherTargetOfTheCluster(t *testing.T) {
	target := &engage.Target{Key: types.NamespacedName{Name: "c2"}, ClusterID: "c2-id"}
	for name, test := range map[string]struct {
		other *engage.Target
		want  bool
	}{
		"a target that leads to the cluster": {
			&engage.Target{Key: types.NamespacedName{Name: "eu"}, ClusterID: "c2-id"}, true,
		},
		"a target that leads to the cluster for the namespace": {
			&engage.Target{Key: types.NamespacedName{Namespace: "shop", Name: "eu"}, ClusterID: "c2-id"}, true,
		},
		"not a target that leads to the cluster for another namespace": {
			&engage.Target{Key: types.NamespacedName{Namespace: "other", Name: "eu"}, ClusterID: "c2-id"}, false,
		},
		"not a target of another cluster": {
			&engage.Target{Key: types.NamespacedName{Name: "eu"}, ClusterID: "c3-id"}, false,
		},
		"not a target whose cluster is unknown": {&engage.Target{Key: types.NamespacedName{Name: "eu"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 0)
			if err := f.options.Registry.Engage(t.Context(), test.other); err != nil {
				t.Fatal(err)
			}
			siblings := newLoop(f.connections, target.Key, want{}, nil).siblings(target, "shop")
			if got := len(siblings) > 0; got != test.want {
				t.Errorf("taken: got %t, want %t", got, test.want)
			}
		})
	}
}

// leaving is a loop that leaves its target, in which three PodChaperons are.
type leaving struct {
	fixture

	loop  *loop
	there client.Client
	mu    sync.Mutex // answers come one after the other
	// answer is the target's answer to the deletion of all but the first one, unless it is nil.
	answer func() error
	// create is the target's answer to a request to create, unless it is nil. late is created when it is called.
	create func(late func()) error
	// refused answers lists of PodChaperons that do not come from the cache, unless it is nil.
	refused error
	// copies are those that are listed, of each kind. The target does not let this source delete "copied".
	copies []metav1.PartialObjectMetadata
	// steps are what happened in the target, in order.
	steps []string
}

func newLeaving(t *testing.T) *leaving {
	t.Helper()
	l := &leaving{fixture: newFixture(t, http.StatusUnauthorized)}
	var objects []client.Object
	for i := range 3 {
		objects = append(objects, stray("c2", func(c *v1alpha1.PodChaperon) { c.Name = fmt.Sprintf("web-%d", i) }))
	}
	l.there = fakeOf(t, interceptor.Funcs{
		Delete: func(
			ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption,
		) error {
			if object.GetName() == "copied" {
				return apierrors.NewForbidden(schema.GroupResource{}, "copied", errors.New("it is not a copy of yours"))
			}
			if l.answer != nil && object.GetName() != "web-0" {
				l.mu.Lock()
				defer l.mu.Unlock()
				if err := l.answer(); err != nil {
					return err
				}
			}
			return c.Delete(ctx, object, options...)
		},
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			kind := list.GetObjectKind().GroupVersionKind().Kind
			if _, copies := list.(*metav1.PartialObjectMetadataList); copies && kind != "PodChaperonList" {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.steps = append(l.steps, "copies")
				list.(*metav1.PartialObjectMetadataList).Items = l.copies //nolint:forcetypeassert // It is one.
				return nil
			} else if copies && l.refused != nil {
				return l.refused
			}
			err := c.List(ctx, list, options...)
			if cached, ok := list.(*v1alpha1.PodChaperonList); ok {
				cached.Items = slices.DeleteFunc(cached.Items, func(c v1alpha1.PodChaperon) bool {
					return c.Name == late().Name
				})
			}
			return err
		},
		Create: func(
			ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption,
		) error {
			if l.create == nil {
				return c.Create(ctx, object, options...)
			}
			return l.create(func() {
				if err := c.Create(context.WithoutCancel(ctx), object, options...); err != nil {
					t.Error(err)
				}
			})
		},
	}, objects...)
	key := types.NamespacedName{Name: "c2"}
	l.options.Source, l.options.Scheme = translate.Source{ClusterID: "c1"}, l.there.Scheme()
	l.loop = newLoop(l.connections, key, l.refuser, nil)
	l.loop.known = "c2-id"
	creator := &creator{Client: l.there, all: l.loop.creations}
	l.loop.engaged = &engagement{
		target: &engage.Target{Key: key, Client: creator, APIReader: l.there}, identity: identity.New("c2-id"),
		creator: creator,
		rest:    func() { l.steps = append(l.steps, "rest") }, end: func() { l.steps = append(l.steps, "end") },
	}
	return l
}

// noProofs verifies nothing.
type noProofs struct{}

func (noProofs) Verify(proof.Claim, string) bool { return false }

func (noProofs) CreatedAt() time.Time { return time.Time{} }

// gone leaves the target until it is left, or given up. The clock goes on while the loop waits.
func (l *leaving) gone(ctx, life context.Context, last *want) {
	ended := make(chan struct{})
	go func() { defer close(ended); l.loop.leave(ctx, life, last) }()
	for {
		select {
		case <-ended:
			return
		default:
			if l.clock.HasWaiters() {
				l.clock.Step(30 * time.Second)
			}
		}
	}
}

func (l *leaving) left(t *testing.T) int {
	t.Helper()
	list := &v1alpha1.PodChaperonList{}
	if err := l.there.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// event returns the event that was recorded, or an empty text.
func (l *leaving) event() string {
	select {
	case event := <-l.events:
		return event
	default:
		return ""
	}
}

// Only of copies does a refusal say that they are not ours any more. Rights on PodChaperons may be given again.
func TestATargetThatIsDeletedIsTriedUntilNothingIsLeftThere(t *testing.T) {
	for _, answer := range []error{
		errors.New("slow"), apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("no right")),
	} {
		l := newLeaving(t)
		began := l.clock.Now()
		l.answer = func() error {
			if l.clock.Since(began) < leaveWithin/2 {
				return answer
			}
			return nil
		}
		l.gone(t.Context(), t.Context(), &l.refuser)
		if left, event := l.left(t), l.event(); left != 0 || event != "" {
			t.Errorf("%v: %d PodChaperons stay: %s", answer, left, event)
		}
		// Copies are deleted when nobody makes them again, and while this source may still write there.
		if !slices.Equal(l.steps, []string{"rest", "copies", "copies", "copies", "end"}) {
			t.Errorf("%v: steps: %s", answer, l.steps)
		}
	}
}

func TestACopyThatSomebodyHasMadeTheirOwnIsLeftAlone(t *testing.T) {
	l := newLeaving(t)
	copied := metav1.PartialObjectMetadata{ObjectMeta: stray("c2", func(c *v1alpha1.PodChaperon) {
		c.Name = "copied"
	}).ObjectMeta}
	l.copies = append(l.copies, copied)
	l.loop.engaged.target.Gate = &gate.Gate{Verifier: noProofs{}}
	began := l.clock.Now()
	l.gone(t.Context(), t.Context(), &l.refuser)
	if took := l.clock.Since(began); took != 0 || l.event() != "" || l.left(t) != 0 {
		t.Errorf("it took %s", took)
	}
}

func TestWhoeverGetsOnLeavesForLonger(t *testing.T) {
	l := newLeaving(t)
	began, deleted := l.clock.Now(), 0
	l.answer = func() error {
		if l.clock.Since(began) < time.Duration(deleted+1)*leaveWithin*3/4 {
			return errors.New("slow")
		}
		deleted++
		return nil
	}
	l.gone(t.Context(), t.Context(), &l.refuser)
	if left, event := l.left(t), l.event(); left != 0 || event != "" {
		t.Errorf("%d PodChaperons stay: %s", left, event)
	}
}

func TestAnEventSaysWhatStaysInATargetThatWasDeleted(t *testing.T) {
	never := func() error { return errors.New("slow") }
	ended := func() context.Context { ctx, end := context.WithCancel(t.Context()); end(); return ctx }()
	for name, test := range map[string]struct {
		given     func(l *leaving)
		ctx, life context.Context //nolint:containedctx // It is a table.
		noWant    bool
		event     string // a part of it
		tried     bool   // to connect anew
	}{
		"the target does not delete them": {
			given: func(l *leaving) { l.answer = never }, event: "c2 was deleted, and 2 PodChaperons of it may stay",
		},
		"the event has the command": {
			given: func(l *leaving) { l.answer = never },
			event: "delete podchaperons -A -l multicluster.admiralty.io/parent-cluster-id=c1,",
		},
		"the target is lost": {
			given: func(l *leaving) { l.options.Registry.Lose(l.loop.engaged.target) },
			event: "3 PodChaperons of it may stay", tried: true,
		},
		"this manager has not connected it yet": {
			given: func(l *leaving) { l.loop.engaged = nil }, event: "and PodChaperons of it may stay", tried: true,
		},
		"there are no credentials any more": {
			given: func(l *leaving) { l.loop.engaged = nil }, noWant: true, event: errNoCredentials.Error(),
		},
		"the manager stops": {
			given: func(l *leaving) { l.answer = never }, ctx: ended, life: ended,
			event: "2 PodChaperons of it may stay",
		},
		"not of one that was never connected": {
			given: func(l *leaving) { l.loop.engaged, l.loop.known = nil, "" },
		},
		"not of one that is created again": {given: func(l *leaving) { l.answer = never }, ctx: ended},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaving(t)
			test.given(l)
			ctx, life, last := test.ctx, test.life, &l.refuser
			if ctx == nil {
				ctx = t.Context()
			}
			if life == nil {
				life = t.Context()
			}
			if test.noWant {
				last = nil
			}
			l.gone(ctx, life, last)
			event := l.event()
			if (event == "") != (test.event == "") || !strings.Contains(event, test.event) {
				t.Errorf("event %q, want one with %q", event, test.event)
			}
			if tried := l.asked.Load() > 0; tried != test.tried {
				t.Errorf("it was asked %d times", l.asked.Load())
			}
			if l.loop.engaged != nil {
				t.Error("it is still connected")
			}
		})
	}
}

func TestATargetThatIsDeletedBeforeItsSecretIsReadIsReported(t *testing.T) {
	key := types.NamespacedName{Namespace: "team", Name: "c2"}
	for name, test := range map[string]struct {
		status v1alpha1.TargetStatus
		read   bool
		want   string
	}{
		"an earlier leader connected it": {
			status: v1alpha1.TargetStatus{ClusterID: "c2-id"},
			want:   "team/c2 was deleted, and PodChaperons of it may stay",
		},
		"nobody ever connected it": {},
		"it is read":               {status: v1alpha1.TargetStatus{ClusterID: "c2-id"}, read: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaving(t)
			l.await(key, test.status)
			if test.read {
				l.set(t.Context(), key, failedWant(v1alpha1.ReasonSecretNotFound, "gone"), nil)
			}
			for range 2 { // The second time, nobody remembers it.
				l.remove(t.Context(), key)
			}
			if event := l.event(); (event == "") != (test.want == "") || !strings.Contains(event, test.want) {
				t.Errorf("event %q, want one with %q", event, test.want)
			}
			if event := l.event(); event != "" {
				t.Errorf("another event: %s", event)
			}
		})
	}
}

func TestALoopLeavesWithItsLastCredentials(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	gone := want{fingerprint: "gone", gone: true}
	failed := failedWant(v1alpha1.ReasonSecretNotFound, "gone")
	refused := failed
	refused.config = f.refuser.config
	for name, test := range map[string]struct {
		was, is want
		last    bool
	}{
		"it had credentials":                    {f.refuser, gone, true},
		"its Secret was gone":                   {failed, gone, false},
		"its credentials could not be used":     {refused, gone, false},
		"not while it exists":                   {f.refuser, failed, false},
		"not while it exists, with credentials": {failed, f.refuser, false},
	} {
		l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, test.was, nil)
		l.set(test.is)
		if last := l.want.last; (last != nil) != test.last || last != nil && last.fingerprint != test.was.fingerprint {
			t.Errorf("%s: it leaves with %+v", name, last)
		}
	}
}
