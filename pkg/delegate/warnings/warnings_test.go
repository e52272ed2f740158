package warnings

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	fakeclientset "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// stage is a target with Warnings that nobody has started.
type stage struct {
	*Warnings
	t     *testing.T
	clock *clocktesting.FakeClock
	api   *fakeclientset.Clientset
	woken chan types.NamespacedName
}

func newStage(t *testing.T, pods ...client.Object) *stage {
	t.Helper()
	s := &stage{
		t: t, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), api: fakeclientset.NewClientset(),
		woken: make(chan types.NamespacedName, 10_000),
	}
	s.Warnings = New(Options{
		Pods:   fake.NewClientBuilder().WithObjects(pods...).Build(),
		Events: s.api.CoreV1().Events(metav1.NamespaceAll), Clock: s.clock, Logger: logr.Discard(),
		Wake: func(key types.NamespacedName) { s.woken <- key },
	})
	return s
}

// start starts the Warnings until the test ends.
func (s *stage) start() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// expectWoken waits until a PodChaperon is woken.
func (s *stage) expectWoken(name string) {
	s.t.Helper()
	select {
	case key := <-s.woken:
		if key.Name != name {
			s.t.Fatalf("%q was woken, want %q", key, name)
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%q was not woken", name)
	}
}

// shown returns the messages that a PodChaperon shows.
func (s *stage) shown(name string) []string {
	var messages []string
	for _, c := range s.Of(chaperonOf(name)) {
		messages = append(messages, c.Reason+": "+c.Message)
	}
	return messages
}

func chaperonOf(name string) *v1alpha1.PodChaperon {
	return &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("chaperon-of-" + name)},
	}
}

func delegate(name string) *corev1.Pod {
	owner := metav1.NewControllerRef(chaperonOf(name), v1alpha1.GroupVersion.WithKind("PodChaperon"))
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-of-" + name),
		OwnerReferences: []metav1.OwnerReference{*owner},
	}}
}

func event(about, reason, message string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s.%s.%d", about, reason, at.Unix())},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", Namespace: "default", Name: about, UID: types.UID("uid-of-" + about),
		},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at),
	}
}

func TestOnlyWarningsAboutDelegatesCount(t *testing.T) {
	other := delegate("other")
	other.OwnerReferences = nil
	replicated := delegate("replicated")
	replicated.OwnerReferences[0].Kind = "ReplicaSet"
	at := time.Unix(900, 0)
	s := newStage(t, delegate("web"), other, replicated)
	before := event("web", "BackOff", "of the pod before", at)
	before.InvolvedObject.UID = "before"
	for _, e := range []*corev1.Event{
		event("other", "BackOff", "no delegate", at), event("replicated", "BackOff", "no delegate", at),
		event("gone", "BackOff", "no pod", at), before, event("web", "?", "no reason", at),
		event("web", "FailedScheduling", "the condition PodScheduled says it", at),
	} {
		s.see(t.Context(), e)
	}
	if len(s.delegates) != 0 || s.queue.Len() != 0 {
		t.Errorf("%d delegates, %d to show", len(s.delegates), s.queue.Len())
	}
	s.see(t.Context(), event("web", "BackOff", "of this one", at))
	if len(s.delegates) != 1 || s.queue.Len() != 1 {
		t.Errorf("%d delegates, %d to show, want one", len(s.delegates), s.queue.Len())
	}
}

func TestWarningsAreShownAtOnceAndRepeatedOnesLater(t *testing.T) {
	s := newStage(t, delegate("web"))
	watched := watch.NewFake()
	s.api.PrependWatchReactor("events", clienttesting.DefaultWatchReactor(watched, nil))
	s.api.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.EventList{Items: []corev1.Event{*event("web", "BackOff", "first", s.clock.Now())}}, nil
	})
	s.start()
	s.expectWoken("web")
	s.expectShown("web", "BackOff: first")
	s.clock.Step(3 * time.Second)
	watched.Modify(event("web", "BackOff", "second", s.clock.Now()))
	watched.Modify(event("web", "BackOff", "third", s.clock.Now().Add(time.Second)))
	watched.Add(event("web", "Unhealthy", "another reason", s.clock.Now()))
	s.expectWoken("web") // Perhaps before the last event was seen.
	watched.Modify(event("web", "BackOff", "fourth", s.clock.Now().Add(2*time.Second)))
	s.await(func() error {
		if wait, pending := s.waitOf("web"); !pending || wait <= firstAfter {
			return fmt.Errorf("%v, to be shown after %s", s.shown("web"), wait)
		}
		return nil
	})
	select {
	case <-s.woken:
		t.Fatal("a repeated one was shown at once")
	default:
	}
	s.await(func() error { // Until the queue waits for the time.
		if s.clock.Step(time.Second); len(s.woken) == 0 {
			return errors.New("not woken")
		}
		return nil
	})
	s.expectShown("web", "BackOff: fourth", "Unhealthy: another reason")
	if at := s.clock.Since(time.Unix(1003, 0)); at < repeatAfter {
		t.Errorf("a repeated one was shown after %s", at)
	}
}

// waitOf returns when the latest warnings of a delegate are to be shown, and whether they are not yet.
func (s *stage) waitOf(name string) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delegates[types.NamespacedName{Namespace: "default", Name: name}].wait(s.clock.Now())
}

func (s *stage) expectShown(name string, want ...string) {
	s.t.Helper()
	if got := s.shown(name); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s shows %q, want %q", name, got, want)
	}
}

func (s *stage) await(check func() error) {
	s.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.t.Context(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	if err != nil {
		s.t.Fatal(last)
	}
}

func TestManyDelegatesShareABudget(t *testing.T) {
	const many = 3 * burst
	var pods []client.Object
	for i := range many {
		pods = append(pods, delegate(fmt.Sprintf("web-%d", i)))
	}
	s := newStage(t, pods...)
	for i := range many {
		s.see(t.Context(), event(fmt.Sprintf("web-%d", i), "BackOff", "again", s.clock.Now()))
	}
	s.start()
	begin := s.clock.Now()
	s.await(func() error { // The budget is spent, and somebody waits for the next one.
		if len(s.woken) < burst {
			return fmt.Errorf("%d were woken", len(s.woken))
		}
		return nil
	})
	s.await(func() error {
		woken := len(s.woken)
		if allowed := burst + int(s.clock.Since(begin)/(time.Second/writesPerSecond)); woken > allowed {
			t.Fatalf("%d were woken after %s, want at most %d", woken, s.clock.Since(begin), allowed)
		}
		if woken < many {
			s.clock.Step(time.Second / writesPerSecond)
			return fmt.Errorf("%d were woken", woken)
		}
		return nil
	})
	if after := s.clock.Since(begin); after < (many-burst)*time.Second/writesPerSecond {
		t.Errorf("all were woken after %s", after)
	}
}

func TestAPodChaperonThatIsGoneIsForgotten(t *testing.T) {
	s := newStage(t, delegate("web"))
	s.see(t.Context(), event("web", "BackOff", "again", s.clock.Now()))
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	if !s.due(key) || !s.show(key) || len(s.shown("web")) != 1 {
		t.Fatalf("it shows %q", s.shown("web"))
	}
	another := chaperonOf("web")
	another.UID = "another"
	if got := s.Of(another); got != nil {
		t.Errorf("another PodChaperon of the name shows %v", got)
	}
	s.Forget(key)
	if s.due(key) || s.show(key) || len(s.delegates) != 0 || len(s.shown("web")) != 0 {
		t.Errorf("it is not forgotten, and shows %q", s.shown("web"))
	}
}

func TestListsAreReadPageByPage(t *testing.T) {
	s := newStage(t, delegate("web"))
	pages := map[string]*corev1.EventList{
		"":  {ListMeta: metav1.ListMeta{Continue: "2", ResourceVersion: "7"}},
		"2": {ListMeta: metav1.ListMeta{ResourceVersion: "7"}},
	}
	pages[""].Items = []corev1.Event{*event("web", "BackOff", "again", s.clock.Now())}
	pages["2"].Items = []corev1.Event{*event("web", "Unhealthy", "no answer", s.clock.Now())}
	s.api.PrependReactor("list", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, ok := action.(clienttesting.ListActionImpl)
		if !ok || list.ListOptions.Limit != page || list.ListOptions.FieldSelector != ofPods {
			return true, nil, fmt.Errorf("unexpected %+v", action)
		}
		return true, pages[list.ListOptions.Continue], nil
	})
	from := &stream{events: s.options.Events, see: s.see, ctx: t.Context()}
	got, err := from.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	list, ok := got.(*corev1.EventList)
	if !ok || len(list.Items) != 0 || list.ResourceVersion != "7" {
		t.Errorf("the reflector gets %v", got)
	}
	if e := s.delegates[types.NamespacedName{Namespace: "default", Name: "web"}]; len(e.latest) != 2 {
		t.Errorf("%v was noted", e.latest)
	}
}

func TestTheTimeOfAnEventIsWhenItLastHappened(t *testing.T) {
	last, early := time.Unix(1000, 0), time.Unix(500, 0)
	for name, e := range map[string]*corev1.Event{
		"of the recorder of kubelets": {LastTimestamp: metav1.NewTime(last), FirstTimestamp: metav1.NewTime(early)},
		"of the recorder of schedulers": {
			EventTime: metav1.NewMicroTime(early),
			Series:    &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(last)},
		},
		"of the first one": {EventTime: metav1.NewMicroTime(last)},
		"without a time":   {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(last)}},
	} {
		if got := lastTime(e); !got.Equal(last) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestWarningsGoOnAfterAnError(t *testing.T) {
	s := newStage(t, delegate("web"))
	fails := make(chan struct{}, 10)
	s.api.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		select {
		case fails <- struct{}{}:
			if len(fails) < 3 {
				return true, nil, errors.New("forbidden")
			}
		default:
		}
		return true, &corev1.EventList{Items: []corev1.Event{*event("web", "BackOff", "again", s.clock.Now())}}, nil
	})
	s.start()
	s.await(func() error {
		if s.clock.Step(time.Second); len(s.woken) == 0 {
			return errors.New("not woken")
		}
		return nil
	})
	if len(s.shown("web")) != 1 {
		t.Errorf("it shows %q", s.shown("web"))
	}
}
