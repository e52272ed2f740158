package chaperon

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestCreationErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	webhook := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no"}}
	}
	for name, test := range map[string]struct {
		err     error
		refused bool
		wait    time.Duration
		retried bool
	}{
		"quota or PodSecurity": {err: apierrors.NewForbidden(pods, "p", errors.New("quota")), refused: true},
		"validation": {
			err:     apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", nil),
			refused: true,
		},
		"a field that does not fit": {err: apierrors.NewBadRequest("no"), refused: true},
		"a missing namespace": {
			err:     apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"),
			refused: true,
		},
		"a webhook with its own code": {err: webhook(418), refused: true},
		"a conflict": {
			err:     apierrors.NewConflict(pods, "p", errors.New("quota changed")),
			retried: true,
		},
		"an expired login": {err: apierrors.NewUnauthorized("no"), retried: true},
		"a broken webhook": {
			err:     apierrors.NewInternalError(errors.New("failed calling webhook")),
			retried: true,
		},
		"a broken network":         {err: errors.New("connection refused"), retried: true},
		"an overloaded API server": {err: apierrors.NewTooManyRequests("slow down", 7), wait: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(corev1.PodStatus{}))
			s.createErr = test.err
			result, err := s.reconcile()
			if (err != nil) != test.retried || result.RequeueAfter != test.wait {
				t.Errorf("result %v, error %v", result, err)
			}
			lost := lostCondition(&s.chaperon().Status)
			if got := lost != nil; got != test.refused {
				t.Fatalf("refused: %v, want %v", got, test.refused)
			}
			if test.refused && (lost.Reason != v1alpha1.ReasonDelegateRefused ||
				lost.Message != test.err.Error() || len(s.recorder.Events) != 1) {
				t.Errorf("condition %v, %d events", lost, len(s.recorder.Events))
			}
		})
	}
}

func TestARefusedReplacementLeavesTheLossToBeSeen(t *testing.T) {
	c := chaperon(
		*withCondition(
			&corev1.PodStatus{Phase: corev1.PodRunning}, v1alpha1.ReasonDelegateGone, messageGone, time.Unix(0, 0),
		),
	)
	s := newStage(t, c)
	s.createErr = &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden}}
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != remakeAfter || len(s.recorder.Events) != 1 {
		t.Errorf("result %v, error %v, %d events", result, err, len(s.recorder.Events))
	}
	if got := lostCondition(&s.chaperon().Status).Reason; got != v1alpha1.ReasonDelegateGone {
		t.Errorf("reason %q", got)
	}
}

func TestAnUndisturbedDelegateCostsTwoStatusWrites(t *testing.T) {
	s := newStage(t, chaperon(corev1.PodStatus{}))
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	s.mustReconcile()
	for _, status := range []corev1.PodStatus{
		{Phase: corev1.PodPending},
		{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{scheduled}},
		{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{scheduled, ready}},
	} {
		pod := delegate(status)
		pod.ResourceVersion = ""
		if err := s.client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		s.mustReconcile()
		s.mustReconcile() // Our own write is an event, too.
	}
	if s.statusWrites != 2 || len(s.recorder.Events) != 0 {
		t.Errorf("%d status writes and %d events, want 2 and none", s.statusWrites, len(s.recorder.Events))
	}
	if got := s.chaperon().Status.Phase; got != corev1.PodRunning {
		t.Errorf("phase %q", got)
	}
}

func TestStaleCaches(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	t.Run("a delegate that the cache does not show yet is not lost", func(t *testing.T) {
		s := newStage(t, chaperon(running), delegate(running))
		s.hidePods = true
		s.mustReconcile()
		if lost := lostCondition(&s.chaperon().Status); lost != nil {
			t.Errorf("condition %v", lost)
		}
	})
	t.Run("a delegate that exists already is a success", func(t *testing.T) {
		s := newStage(t, chaperon(corev1.PodStatus{}), delegate(running))
		s.hidePods = true
		s.mustReconcile()
		if got := s.chaperon().Status.Phase; got != corev1.PodRunning {
			t.Errorf("phase %q", got)
		}
	})
	t.Run("our own status counts before the cache shows it", func(t *testing.T) {
		s := newStage(t, chaperon(corev1.PodStatus{}), delegate(running))
		s.cached = s.chaperon()
		s.mustReconcile()
		s.mustReconcile()
		if s.statusWrites != 1 {
			t.Errorf("%d status writes, want 1", s.statusWrites)
		}
		if err := s.client.Delete(t.Context(), delegate(running)); err != nil {
			t.Fatal(err)
		}
		s.mustReconcile()
		if lost := lostCondition(&s.chaperon().Status); lost == nil || lost.Reason != v1alpha1.ReasonDelegateGone {
			t.Errorf("condition %v: the delegate was made again", lost)
		}
	})
}

func TestTheCacheCountsIfItIsNewerThanOurWrite(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	s := newStage(t, chaperon(corev1.PodStatus{}), delegate(running))
	s.mustReconcile()
	if s.statusWrites != 1 {
		t.Fatalf("%d status writes, want 1", s.statusWrites)
	}
	c := s.chaperon()
	grace("")(c)
	if err := s.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	s.expectNoDelegate()
}

func TestWhoIsAskedForADelegate(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	for name, test := range map[string]struct {
		chaperon  *v1alpha1.PodChaperon
		hidden    bool
		liveReads int
	}{
		"one that the cache has":           {chaperon: chaperon(running)},
		"one that the cache has no more":   {chaperon: chaperon(running), hidden: true, liveReads: 1},
		"one that nobody has seen":         {chaperon: chaperon(corev1.PodStatus{}), hidden: true},
		"one of a PodChaperon that ends":   {chaperon: chaperon(running, deleted), hidden: true},
		"one whose end was requested, too": {chaperon: chaperon(running, grace(""), deleted), hidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, test.chaperon, delegate(running))
			s.hidePods = test.hidden
			if _, err := s.reconciler.getDelegate(t.Context(), test.chaperon); err != nil {
				t.Fatal(err)
			}
			if s.liveReads != test.liveReads {
				t.Errorf("%d live reads, want %d", s.liveReads, test.liveReads)
			}
		})
	}
}

func TestAPodChaperonThatIsToEndOutlivesItsDelegate(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	for name, test := range map[string]struct {
		status    corev1.PodStatus // of the PodChaperon
		seen      bool             // by the cache
		liveReads int
	}{
		"a delegate that left the cache is gone":                        {status: running, seen: true},
		"a delegate that the cache never had is looked for and deleted": {status: running, liveReads: 2},
		"a delegate that was not reported is looked for, too":           {liveReads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(test.status, grace("")), delegate(running))
			s.hidePods = !test.seen
			s.mustReconcile()
			if err := s.client.Get(
				t.Context(),
				client.ObjectKeyFromObject(delegate(running)),
				&corev1.Pod{},
			); !apierrors.IsNotFound(
				err,
			) {
				t.Errorf("getting the delegate: %v, want NotFound", err)
			}
			s.chaperon() // is there
			s.mustReconcile()
			if err := s.client.Get(
				t.Context(),
				client.ObjectKeyFromObject(delegate(running)),
				&v1alpha1.PodChaperon{},
			); !apierrors.IsNotFound(
				err,
			) {
				t.Errorf("getting the PodChaperon: %v, want NotFound", err)
			}
			if s.liveReads != test.liveReads {
				t.Errorf("%d live reads, want %d", s.liveReads, test.liveReads)
			}
			s.mustReconcile()
			if len(s.reconciler.written.endings) > 0 {
				t.Error("what is gone is remembered")
			}
		})
	}
}

func TestStatusPatchesAreMinimal(t *testing.T) {
	c := chaperon(corev1.PodStatus{Phase: corev1.PodPending, PodIP: "10.0.0.1"})
	c.ResourceVersion = "7"
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"only fields that differ are patched": {
			corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
			`{"metadata":{"uid":"chaperon"},"status":{"phase":"Running"}}`,
		},
		"a loss is patched for this version of the PodChaperon only": {
			corev1.PodStatus{
				Phase:      corev1.PodPending,
				PodIP:      "10.0.0.1",
				Conditions: []corev1.PodCondition{{Type: v1alpha1.ConditionDelegate}},
			},
			`{"metadata":{"resourceVersion":"7","uid":"chaperon"},"status":{"conditions":[{"lastProbeTime":null,` +
				`"lastTransitionTime":null,"status":"","type":"multicluster.admiralty.io/Delegate"}]}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			patch, err := statusPatch(c, &test.status)
			if err != nil {
				t.Fatal(err)
			}
			data, err := patch.Data(nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(data)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// stage is a Reconciler on a fake API server whose caches and answers can be falsified.
type stage struct {
	t            *testing.T
	client       client.WithWatch
	reconciler   *Reconciler
	recorder     *events.FakeRecorder
	createErr    error
	listErr      error
	mutate       func(*corev1.Pod) // as a webhook does
	creates      []string          // the requests to create
	hidePods     bool
	cached       *v1alpha1.PodChaperon
	statusWrites int
	liveReads    int
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{t: t, recorder: events.NewFakeRecorder(10)}
	s.client = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.PodChaperon{}).WithObjects(objects...).Build()
	cached := interceptor.NewClient(s.client, interceptor.Funcs{
		Get:    s.get,
		Create: s.create,
		List: func(
			ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
		) error {
			if s.listErr != nil {
				return s.listErr
			}
			return c.List(ctx, list, options...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			s.statusWrites++
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	})
	live := interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			s.liveReads++
			return c.Get(ctx, key, object, options...)
		},
	})
	s.reconciler = New(cached, live, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0)), s.recorder, "")
	s.reconciler.unanswered.begin(time.Unix(9e8, 0)) // It has led for long.
	return s
}

func (s *stage) get(
	ctx context.Context,
	c client.WithWatch,
	key client.ObjectKey,
	object client.Object,
	options ...client.GetOption,
) error {
	switch object := object.(type) {
	case *corev1.Pod:
		if s.hidePods {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
		}
	case *v1alpha1.PodChaperon:
		if s.cached != nil {
			s.cached.DeepCopyInto(object)
			return nil
		}
	}
	return c.Get(ctx, key, object, options...)
}

func (s *stage) create(
	ctx context.Context,
	c client.WithWatch,
	object client.Object,
	options ...client.CreateOption,
) error {
	request := (&client.CreateOptions{}).ApplyOptions(options)
	s.creates = append(s.creates, map[bool]string{true: "dry run", false: "create"}[len(request.DryRun) > 0])
	if s.createErr != nil {
		return s.createErr
	}
	if pod, ok := object.(*corev1.Pod); ok && s.mutate != nil {
		s.mutate(pod)
	}
	return c.Create(ctx, object, options...)
}

func (s *stage) reconcile() (reconcile.Result, error) {
	return s.reconciler.Reconcile(
		s.t.Context(),
		reconcile.Request{NamespacedName: client.ObjectKeyFromObject(chaperon(corev1.PodStatus{}))},
	)
}

func (s *stage) mustReconcile() {
	s.t.Helper()
	if _, err := s.reconcile(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) chaperon() *v1alpha1.PodChaperon {
	s.t.Helper()
	c := chaperon(corev1.PodStatus{})
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		s.t.Fatal(err)
	}
	return c
}
