package objects

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
		changed: func(objectKey, bool) {}, trouble: func(_ collection, err error) { t.Errorf("trouble: %v", err) },
		all: map[collection]*collectionWatch{}, stopping: map[collection]bool{},
	}, client, clock
}

func TestACollectionIsWatchedUntilNobodyHasReferredToItForAWhile(t *testing.T) {
	s, _, clock := idle(t)
	ctx, u := t.Context(), s.users
	c := secret("db").collection()
	w := s.ensure(ctx, c)
	must(t, w.waitUntilKnown(ctx))
	if s.ensure(ctx, c) != w {
		t.Fatal("a collection is watched twice")
	}
	s.stopLater(c)
	pod := usageOf(proxy("", "", "db"))
	u.replaceUsage(usage{}, pod)
	clock.Step(unusedFor)
	if s.watchOf(c) != w {
		t.Fatal("it is not watched any more, though a pod refers to it")
	}
	u.replaceUsage(pod, usage{})
	s.stopLater(c)
	clock.Step(unusedFor - 1)
	s.stopLater(c) // does not prolong it
	if s.watchOf(c) != w {
		t.Fatal("it is not watched any more, though the next pod may refer to it")
	}
	clock.Step(1)
	if s.watchOf(c) != nil {
		t.Error("it is still watched")
	}
	s.stopLater(collection{"shop", needs.ConfigMaps}) // never watched
	clock.Step(unusedFor)
}

func TestAWatchThatIsForbiddenSaysWhichRightIsMissing(t *testing.T) {
	s, client, _ := idle(t)
	troubles := make(chan string, 10)
	s.trouble = func(_ collection, err error) { troubles <- err.Error() }
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
	})
	err := s.ensure(t.Context(), secret("db").collection()).waitUntilKnown(t.Context())
	want := `get, list and watch secrets in namespace "shop"`
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not say which right is missing: %v", err)
	}
	if trouble := <-troubles; !strings.Contains(trouble, want) {
		t.Errorf("the report does not say which right is missing: %v", trouble)
	}
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
	s.stopLater(c)
	clock.Step(unusedFor)
	close(listed)
	if err := w.waitUntilKnown(t.Context()); err == nil || t.Context().Err() != nil {
		t.Errorf("got %v", err)
	}
}

func TestACollectionIsNotWatchedForEverForAPodThatIsGone(t *testing.T) {
	s, _, clock := idle(t)
	f := &Follower{users: s.users, watches: s}
	f.ensure = func(c collection) *collectionWatch { return f.watches.ensure(t.Context(), c) }
	db := secret("db")
	must(t, f.findMissing(t.Context(), db.namespace, []needs.Need{{Ref: db.Ref, Optional: true}}))
	clock.Step(unusedFor)
	if f.watches.watchOf(db.collection()) != nil {
		t.Error("it is still watched")
	}
}
