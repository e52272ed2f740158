package chaperon

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var errReset = fmt.Errorf("creating: %w", syscall.ECONNRESET)

// newUnanswered is a stage with a fresh PodChaperon, whose clock can be set.
func newUnanswered(t *testing.T, objects ...client.Object) (*stage, *clocktesting.FakePassiveClock) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	fresh := chaperon(corev1.PodStatus{}, func(c *v1alpha1.PodChaperon) {
		c.CreationTimestamp = metav1.NewTime(clock.Now())
	})
	s := newStage(t, append(objects, fresh)...)
	s.reconciler.clock = clock
	return s, clock
}

// fail makes one request to create the delegate, which fails.
func (s *stage) fail(err error) {
	s.createErr = err
	_, _ = s.reconcile() // Some errors are returned, and some are a time to wait.
}

// expectWait checks that a refused delegate is not shown as refused, and tried again after some time.
func (s *stage) expectWait(want time.Duration) {
	s.t.Helper()
	s.createErr = forbidden("exceeded quota: none")
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != want {
		s.t.Errorf("result %v, error %v, want %s", result, err, want)
	}
	if lost := lostCondition(&s.chaperon().Status); lost != nil {
		s.t.Errorf("condition %v", lost)
	}
}

// expectRefused checks that a refused delegate is shown as refused.
func (s *stage) expectRefused() {
	s.t.Helper()
	s.createErr = forbidden("exceeded quota: none")
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != 0 {
		s.t.Errorf("result %v, error %v", result, err)
	}
	if lost := lostCondition(&s.chaperon().Status); lost == nil || lost.Reason != v1alpha1.ReasonDelegateRefused {
		s.t.Errorf("condition %v", lost)
	}
}

func TestAFirstRefusalCostsOneLiveRead(t *testing.T) {
	s, _ := newUnanswered(t)
	s.expectRefused()
	s.mustReconcile()
	if s.liveReads != 1 || len(s.creates) != 1 {
		t.Errorf("%d live reads, requests %v", s.liveReads, s.creates)
	}
}

func TestADelegateThatExistsIsNotRefused(t *testing.T) {
	running := delegate(corev1.PodStatus{Phase: corev1.PodRunning})
	for name, earlier := range map[string]error{
		"the connection was lost":    errReset,
		"etcd was slow":              apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
		"an earlier leader asked it": nil,
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newUnanswered(t)
			if earlier != nil {
				s.fail(earlier)
			}
			if err := s.client.Create(t.Context(), running.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			s.hidePods = true
			s.expectWait(0)
			if phase := s.chaperon().Status.Phase; phase != corev1.PodRunning {
				t.Errorf("phase %q", phase)
			}
			if len(s.recorder.Events) > 0 {
				t.Errorf("event %q", <-s.recorder.Events)
			}
		})
	}
}

func TestAPodOfAnotherThatTheCacheLacksIsSeenWhenTheDelegateIsRefused(t *testing.T) {
	s, _ := newUnanswered(t, delegate(corev1.PodStatus{}, notOurs))
	s.hidePods = true
	s.expectRefused()
	if lost := lostCondition(&s.chaperon().Status); lost == nil || lost.Message != messageNotOurs {
		t.Errorf("condition %v", lost)
	}
}

func TestARefusalWaitsForTheEndOfEarlierRequests(t *testing.T) {
	webhook := `failed calling webhook "w": connection refused`
	for name, test := range map[string]struct {
		earlier error
		objects []client.Object
		waits   bool
	}{
		"a lost connection": {earlier: errReset, waits: true},
		"a slow etcd": {
			earlier: apierrors.NewInternalError(errors.New("etcdserver: request timed out")), waits: true,
		},
		"a slow API server":        {earlier: apierrors.NewServerTimeout(pods, "create", 2), waits: true},
		"a deadline":               {earlier: context.DeadlineExceeded, waits: true},
		"a webhook without answer": {earlier: apierrors.NewInternalError(errors.New(webhook))},
		"a conflict":               {earlier: apierrors.NewConflict(pods, "web", errors.New("quota changed"))},
		"a closed port":            {earlier: syscall.ECONNREFUSED},
		"too many requests":        {earlier: apierrors.NewTooManyRequests("slow down", 7)},
		"a dry run without answer": {earlier: errReset, objects: []client.Object{baselineOnly()}},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newUnanswered(t, test.objects...)
			s.fail(test.earlier)
			if test.waits {
				s.expectWait(carriedOutWithin)
				clock.SetTime(clock.Now().Add(carriedOutWithin - time.Second))
				s.expectWait(time.Second)
				clock.SetTime(clock.Now().Add(time.Second))
			}
			s.expectRefused()
		})
	}
}

func TestEachUnansweredRequestProlongsTheWait(t *testing.T) {
	s, clock := newUnanswered(t)
	s.fail(errReset)
	clock.SetTime(clock.Now().Add(carriedOutWithin - time.Second))
	s.fail(errReset)
	s.expectWait(carriedOutWithin)
}

// TestTheEndOfTheWaitComesBeforeTheLook has a request that ends while the API server is asked for the delegate.
func TestTheEndOfTheWaitComesBeforeTheLook(t *testing.T) {
	s, clock := newUnanswered(t)
	s.fail(errReset)
	clock.SetTime(clock.Now().Add(carriedOutWithin - time.Second))
	reader := s.reconciler.apiReader
	s.reconciler.apiReader = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(
			ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption,
		) error {
			err := reader.Get(ctx, key, o, options...)
			if _, ok := o.(*corev1.Pod); ok {
				clock.SetTime(clock.Now().Add(time.Second))
			}
			return err
		},
	})
	s.expectWait(time.Second)
	s.expectRefused()
}

func TestUnansweredRequestsOfAPodChaperonThatIsGoneAreForgotten(t *testing.T) {
	s, clock := newUnanswered(t)
	s.fail(errReset)
	c := s.chaperon()
	next := c.DeepCopy()
	next.UID = "next"
	if wait := s.reconciler.unanswered.wait(next, clock.Now()); wait != 0 {
		t.Errorf("the next PodChaperon of this name waits for %s", wait)
	}
	if err := s.client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if len(s.reconciler.unanswered.byKey) > 0 {
		t.Errorf("remembered: %v", s.reconciler.unanswered.byKey)
	}
}

// TestAnEndWaitsForTheEndOfEarlierRequests asks for the end of a delegate that an unanswered request may still create.
// When the PodChaperon is gone, the source starts the next pod of a StatefulSet's name.
func TestAnEndWaitsForTheEndOfEarlierRequests(t *testing.T) {
	for name, created := range map[string]bool{"it is created": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			s, clock := newUnanswered(t)
			s.fail(errReset)
			c := s.chaperon()
			c.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriod: ""}
			if err := s.client.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			result, err := s.reconcile()
			if err != nil || result.RequeueAfter != carriedOutWithin {
				t.Errorf("result %v, error %v, want %s", result, err, carriedOutWithin)
			}
			s.chaperon() // It is there.
			if created {
				if err := s.client.Create(t.Context(), delegate(corev1.PodStatus{})); err != nil {
					t.Fatal(err)
				}
			}
			s.hidePods = true
			clock.SetTime(clock.Now().Add(carriedOutWithin))
			s.mustReconcile()
			if created {
				s.expectNoDelegate()
				s.chaperon() // It is there until the delegate is seen to be gone.
			}
			s.mustReconcile()
			key := client.ObjectKeyFromObject(c)
			if err := s.client.Get(t.Context(), key, c); !apierrors.IsNotFound(err) {
				t.Errorf("the PodChaperon stays: %v", err)
			}
		})
	}
}

// TestANewLeaderAllowsForRequestsOfTheLastOne asks a manager that has begun to lead for the end of a delegate that
// nobody saw. The last leader may have asked for the delegate, and nobody heard the answer.
func TestANewLeaderAllowsForRequestsOfTheLastOne(t *testing.T) {
	began := time.Unix(1e9, 0)
	scheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
	}}}
	for name, test := range map[string]struct {
		created time.Time
		status  corev1.PodStatus
		want    time.Duration
	}{
		"an older PodChaperon":            {created: began.Add(-time.Second), want: carriedOutWithin - time.Second},
		"one whose delegate was there":    {created: began.Add(-time.Second), status: scheduled},
		"one that the last one never saw": {created: began},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(test.status, func(c *v1alpha1.PodChaperon) {
				c.CreationTimestamp = metav1.NewTime(test.created)
				c.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriod: ""}
			}))
			clock := clocktesting.NewFakePassiveClock(began)
			s.reconciler.clock, s.reconciler.unanswered = clock, unanswered{}
			request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "other", Name: "first"}}
			if _, err := s.reconciler.Reconcile(t.Context(), request); err != nil { // It begins to lead with any.
				t.Fatal(err)
			}
			clock.SetTime(began.Add(time.Second))
			c := s.chaperon()
			result, err := s.reconcile()
			if err != nil || result.RequeueAfter != test.want {
				t.Errorf("result %v, error %v, want %s", result, err, test.want)
			}
			clock.SetTime(began.Add(carriedOutWithin))
			s.mustReconcile()
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
				t.Errorf("the PodChaperon stays: %v", err)
			}
		})
	}
}

func TestADelegateIsNotRefusedWhileNobodyCanLook(t *testing.T) {
	s, _ := newUnanswered(t)
	s.createErr = forbidden("exceeded quota: none")
	down := errors.New("connection refused")
	s.reconciler.apiReader = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(
			context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
		) error {
			return down
		},
	})
	if _, err := s.reconcile(); !errors.Is(err, down) {
		t.Errorf("error %v, want %v", err, down)
	}
	if lost := lostCondition(&s.chaperon().Status); lost != nil {
		t.Errorf("condition %v", lost)
	}
}
