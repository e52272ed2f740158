package objects

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// idle returns watches of an empty cluster, and their clock.
func idle(t *testing.T) (*watches, *metadatafake.FakeMetadataClient, *clocktesting.FakeClock) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	clock := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	return &watches{
		client: client, clock: clock, users: newUsers(),
		changed: func(object, bool) {}, trouble: func(_ collection, err error) { t.Errorf("trouble: %v", err) },
		all: map[collection]*watch{}, leaving: map[collection]bool{},
	}, client, clock
}

func TestACollectionIsWatchedUntilNobodyHasReferredToItForAWhile(t *testing.T) {
	s, _, clock := idle(t)
	ctx, u := t.Context(), s.users
	c := secret("db").collection()
	w := s.ensure(ctx, c)
	must(t, w.wait(ctx))
	if s.ensure(ctx, c) != w {
		t.Fatal("a collection is watched twice")
	}
	s.leave(c)
	pod := claimOf(proxy("", "", "db"))
	u.replace(claim{}, pod)
	clock.Step(linger)
	if s.get(c) != w {
		t.Fatal("it is not watched any more, though a pod refers to it")
	}
	u.replace(pod, claim{})
	s.leave(c)
	clock.Step(linger - 1)
	s.leave(c) // does not prolong it
	if s.get(c) != w {
		t.Fatal("it is not watched any more, though the next pod may refer to it")
	}
	clock.Step(1)
	if s.get(c) != nil {
		t.Error("it is still watched")
	}
	s.leave(collection{"shop", needs.ConfigMaps}) // never watched
}

func TestWaitReturnsWhenTheWatchEnds(t *testing.T) {
	s, client, clock := idle(t)
	listed := make(chan struct{})
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-listed
		return true, nil, context.Canceled
	})
	c := secret("db").collection()
	w := s.ensure(t.Context(), c)
	s.leave(c)
	clock.Step(linger)
	close(listed)
	if err := w.wait(t.Context()); err == nil || t.Context().Err() != nil {
		t.Errorf("got %v", err)
	}
}

func TestACollectionIsNotWatchedForEverForAPodThatIsGone(t *testing.T) {
	s, _, clock := idle(t)
	f := &Follower{users: s.users, watches: s}
	f.ensure = func(c collection) *watch { return f.watches.ensure(t.Context(), c) }
	db := secret("db")
	must(t, f.look(t.Context(), db.namespace, []needs.Need{{Ref: db.Ref, Optional: true}}))
	clock.Step(linger)
	if f.watches.get(db.collection()) != nil {
		t.Error("it is still watched")
	}
}
