package objects

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// connected returns a link of an engaged target, the watch of the Secrets in the namespace shop, and the number of
// copies that were made. No ServiceAccount exists.
func connected(t *testing.T) (l *link, secrets *collectionWatch, made *int) {
	t.Helper()
	made = new(int)
	l, secrets = leading(t, func() error { *made++; return nil })
	l.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[objectKey]())
	t.Cleanup(l.queue.ShutDown)
	f := l.follower
	f.links.Set(t.Context(), l.target, l)
	f.others = map[otherUser]usage{}
	f.watches.users, f.watches.stopping = f.users, map[collection]bool{}
	f.watches.clock = f.options.Clock
	accounts := (&recorder{}).watch(needs.ServiceAccounts)
	must(t, accounts.Replace(nil, ""))
	f.watches.all[accounts.collection] = accounts
	f.ensure = func(c collection) *collectionWatch { return f.watches.all[c] }
	return l, secrets, made
}

// podWith returns a pod in the namespace shop that needs a Secret.
func podWith(secret string, optional bool) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.PodSpec{ServiceAccountName: "robot", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: &optional},
		}}}},
	}
}

func TestEverythingThatAPodNeedsIsThere(t *testing.T) {
	isMissing := func(err error) bool { return errors.As(err, new(*needs.MissingError)) }
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		target *engage.Target
		gone   bool // The watch has not seen yet that the Secret is gone.
		made   int
		err    func(error) bool
	}{
		"a Secret is copied": {pod: podWith("db", false), made: 1},
		"a pod that needs nothing needs no target": {
			pod: &corev1.Pod{}, target: &engage.Target{}, // Its namespace is not watched.
		},
		"a target that is not engaged any more": {
			pod: podWith("db", false), target: &engage.Target{}, err: func(err error) bool { return !isMissing(err) },
		},
		"the source itself has everything": {pod: podWith("db", false), target: &engage.Target{Itself: true}},
		"the source itself lacks a Secret": {
			pod: podWith("none", false), target: &engage.Target{Itself: true}, err: isMissing,
		},
		"a Secret that is missing":            {pod: podWith("none", false), err: isMissing},
		"an optional Secret that is missing":  {pod: podWith("none", true)},
		"a Secret that was just deleted":      {pod: podWith("db", false), gone: true, err: isMissing},
		"an optional one that was just so":    {pod: podWith("db", true), gone: true},
		"an optional Secret that is there":    {pod: podWith("db", true), made: 1},
		"a Secret that is there, seen lately": {pod: podWith("db", false), made: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l, w, made := connected(t)
			l.exists(t, w, "1", "new")
			if test.gone {
				l.follower.contents = dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
			}
			target := l.target
			if test.target != nil {
				target = test.target
			}
			err := l.follower.Ensure(t.Context(), test.pod, target)
			if (err != nil) != (test.err != nil) || err != nil && !test.err(err) {
				t.Errorf("error %v", err)
			}
			if *made != test.made {
				t.Errorf("%d copies were made, want %d", *made, test.made)
			}
		})
	}
}

// TestAServiceAccountThatIsNotFollowedIsNotRead has a source that counts reads.
func TestAServiceAccountThatIsNotFollowedIsNotRead(t *testing.T) {
	l, w, _ := connected(t)
	l.exists(t, w, "1", "new")
	must(t, l.follower.Ensure(t.Context(), podWith("db", false), l.target))
	reads := l.follower.contents.(*dynamicfake.FakeDynamicClient).Actions()
	for _, read := range reads {
		if read.GetResource().Resource != "secrets" {
			t.Errorf("%s was read", read.GetResource().Resource)
		}
	}
	if len(reads) != 1 {
		t.Errorf("%d reads, want 1", len(reads))
	}
}

func TestNothingIsCopiedBeforeTheObjectsAreKnown(t *testing.T) {
	l, w, made := connected(t)
	l.exists(t, w, "1", "new")
	unknown := (&recorder{}).watch(needs.Secrets)
	l.follower.watches.all[unknown.collection] = unknown
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.follower.Ensure(ctx, podWith("db", false), l.target); !errors.Is(err, context.Canceled) || *made > 0 {
		t.Errorf("Ensure: error %v, %d copies", err, *made)
	}
	err := l.follower.Keep(ctx, l.target, "shop", "web", []needs.Ref{secret("db").Ref})
	if !errors.Is(err, context.Canceled) || *made > 0 {
		t.Errorf("Keep: error %v, %d copies", err, *made)
	}
	if err := newEnabledNamespaces(nil).waitUntilKnown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("namespaces: error %v", err)
	}
}

func TestObjectsAreKeptForOtherUsers(t *testing.T) {
	db := []needs.Ref{secret("db").Ref}
	for name, test := range map[string]struct {
		target       *engage.Target
		refs         []needs.Ref
		made, others int
	}{
		"a Secret is copied":           {refs: db, made: 1, others: 1},
		"a Secret that is missing":     {refs: []needs.Ref{secret("none").Ref}, others: 1},
		"a target that is not engaged": {target: &engage.Target{NodeName: "admiralty-c3"}, refs: db, others: 1},
		"no Secret":                    {},
	} {
		t.Run(name, func(t *testing.T) {
			l, w, made := connected(t)
			l.exists(t, w, "1", "new")
			target := l.target
			if test.target != nil {
				target = test.target
			}
			must(t, l.follower.Keep(t.Context(), target, "shop", "web", test.refs))
			if *made != test.made || len(l.follower.others) != test.others {
				t.Errorf("%d copies, %d users; want %d, %d", *made, len(l.follower.others), test.made, test.others)
			}
			must(t, l.follower.Keep(t.Context(), target, "shop", "web", nil))
			if len(l.follower.others) > 0 {
				t.Error("the user does not end")
			}
		})
	}
}

func TestObjectsFollowAProxyThatIsBound(t *testing.T) {
	bound := proxy("admiralty-c2", corev1.PodRunning, "db")
	for name, test := range map[string]struct {
		was, is any
		enabled string
		queued  int
		needed  bool
	}{
		"a proxy that is bound":           {is: bound, enabled: "shop", queued: 1, needed: true},
		"a proxy that did not change":     {was: bound, is: bound, enabled: "shop"},
		"a proxy that is not bound":       {is: proxy("", corev1.PodPending, "db"), enabled: "shop"},
		"a proxy of a disabled namespace": {is: bound, enabled: "other", needed: true},
		"a proxy that goes to another node": {
			was: bound, is: proxy("admiralty-c3", corev1.PodRunning, "db"), enabled: "shop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, w, _ := connected(t)
			l.exists(t, w, "1", "new")
			f := l.follower
			f.users = newUsers()
			f.watches.users = f.users
			if test.was != test.is {
				if pod, ok := test.was.(*corev1.Pod); ok {
					f.users.replaceUsage(usage{}, usageOf(pod))
				}
			}
			enable(t, f, test.enabled)
			f.podChanged(test.was, test.is)
			if got := l.queue.Len(); got != test.queued {
				t.Errorf("%d objects are copied, want %d", got, test.queued)
			}
			if got := f.users.isNeeded("admiralty-c2", secret("db")); got != test.needed {
				t.Errorf("needed: %t, want %t", got, test.needed)
			}
		})
	}
}

func TestUsagesAreEqual(t *testing.T) {
	a := usage{"shop", "admiralty-c2", []needs.Need{{Ref: secret("db").Ref}}}
	for name, test := range map[string]struct {
		other usage
		want  bool
	}{
		"the same":          {a, true},
		"another namespace": {usage{"bank", a.node, a.needs}, false},
		"another node":      {usage{a.namespace, "admiralty-c3", a.needs}, false},
		"other needs":       {usage{a.namespace, a.node, nil}, false},
		"nothing in common": {usage{}, false},
	} {
		if got := a.equal(test.other); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestPodsAreTriedAgainWhenAnObjectAppears(t *testing.T) {
	account := objectKey{"shop", needs.Ref{Resource: needs.ServiceAccounts, Name: "robot"}}
	for name, test := range map[string]struct {
		object   objectKey
		appeared bool
		want     []needs.Ref
	}{
		"a Secret that appears":         {secret("db"), true, []needs.Ref{secret("db").Ref}},
		"a Secret that changes":         {secret("db"), false, nil},
		"a ServiceAccount that appears": {account, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, _ := connected(t)
			var got []needs.Ref
			l.follower.options.Appeared = func(_ string, ref needs.Ref) { got = append(got, ref) }
			l.follower.objectChanged(test.object, test.appeared)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("appeared (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANamespaceIsEnabledByAnEvent(t *testing.T) {
	enabled := 0
	n := newEnabledNamespaces(func(string) { enabled++ })
	must(t, n.Replace(nil, ""))
	shop := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	must(t, n.Update(shop))
	if enabled != 1 {
		t.Errorf("enabled %d times, want 1", enabled)
	}
	must(t, n.Delete(shop))
	if enabled != 1 || n.include("shop") {
		t.Errorf("enabled %d times after the end, included: %t", enabled, n.include("shop"))
	}
}

// TestAFailedWriteIsNotRepeatedAtOnce leaves the repetition to whoever asked.
func TestAFailedWriteIsNotRepeatedAtOnce(t *testing.T) {
	attempts := 0
	l, w := leading(t, func() error { attempts++; return errors.New("busy") })
	l.exists(t, w, "1", "new")
	if err := l.ensure(t.Context(), secret("db")); err == nil || attempts != 1 {
		t.Errorf("ensure: error %v after %d attempts", err, attempts)
	}
	if _, err := l.refresh(t.Context(), secret("db")); err == nil || attempts != 2 {
		t.Errorf("refresh: error %v after %d attempts", err, attempts)
	}
}

// TestALaterChangeIsWrittenLater has an object that changes while it is written: that enqueues it again.
func TestALaterChangeIsWrittenLater(t *testing.T) {
	writes := 0
	var l *link
	var w *collectionWatch
	l, w = leading(t, func() error {
		writes++
		must(t, w.Replace([]any{meta("db", "2")}, ""))
		return nil
	})
	l.exists(t, w, "1", "new")
	if _, err := l.refresh(t.Context(), secret("db")); err != nil || writes != 1 {
		t.Errorf("error %v after %d writes", err, writes)
	}
	if !l.outdated(secret("db")) {
		t.Error("the change is lost")
	}
}

func TestNothingIsWrittenToALostTarget(t *testing.T) {
	writes := 0
	l, w := leading(t, func() error { writes++; return nil })
	l.exists(t, w, "1", "new")
	registry := engage.NewRegistry()
	must(t, registry.Engage(t.Context(), l.target))
	registry.Lose(l.target)
	if _, err := l.refresh(t.Context(), secret("db")); err != nil || writes > 0 {
		t.Errorf("error %v after %d writes", err, writes)
	}
}
