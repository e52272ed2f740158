package objects

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// leading returns a link to a target that calls create before it creates a copy, and the source's watch of Secrets. A
// pod in the target needs Secret "db".
func leading(t *testing.T, create func() error) (*link, *collectionWatch) {
	t.Helper()
	f := &Follower{
		options: Options{
			Clock:    clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)),
			Recorder: events.NewFakeRecorder(10),
		},
		contents: dynamicfake.NewSimpleDynamicClient(scheme.Scheme),
		users:    newUsers(),
	}
	f.namespaces = newEnabledNamespaces(func(string) {})
	enable(t, f, "shop")
	w := (&recorder{}).watch(needs.Secrets)
	f.watches = &watches{all: map[collection]*collectionWatch{w.collection: w}}
	f.users.replaceUsage(usage{}, usageOf(proxy("admiralty-c2", corev1.PodRunning, "db")))
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			dryRun := len(options) == 1 && options[0] == client.DryRunAll
			if o.GetNamespace() == "" || dryRun { // our user name, and whether the policy applies to us
				return nil
			}
			if err := create(); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
	}).Build()
	target := &engage.Target{Key: types.NamespacedName{Name: "c2"}, NodeName: "admiralty-c2", Client: c}
	must(t, engage.NewRegistry().Engage(t.Context(), target))
	return &link{
		follower: f,
		life:     t.Context(),
		target:   target,
		writer:   writer.NewWriter(c, c, translate.Source{ClusterID: "c1"}),
		written:  map[objectKey]copyRecord{},
	}, w
}

// exists creates or changes Secret "db" in the source.
func (l *link) exists(t *testing.T, w *collectionWatch, version, content string) {
	t.Helper()
	original := meta("db", version)
	original.APIVersion, original.Kind = "v1", "Secret"
	db := &corev1.Secret{
		TypeMeta:   original.TypeMeta,
		ObjectMeta: original.ObjectMeta,
		Data:       map[string][]byte{"password": []byte(content)},
	}
	l.follower.contents = dynamicfake.NewSimpleDynamicClient(scheme.Scheme, db)
	must(t, w.Replace([]any{original}, ""))
}

func TestARefusedChangeIsReportedOnceAndTriedAgain(t *testing.T) {
	var answer error
	l, w := leading(t, func() error { return answer })
	l.exists(t, w, "1", "new")
	refused := func(reason string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "db", errors.New(reason))
	}
	reported := l.follower.options.Recorder.(*events.FakeRecorder).Events
	for _, step := range []struct {
		answer error
		want   reconcile.Result
		event  string
	}{
		{
			refused("quota"),
			reconcile.Result{RequeueAfter: refusedRetry},
			`Secret "db" is refused there: secrets "db" is forbidden: quota`,
		},
		{refused("quota"), reconcile.Result{RequeueAfter: refusedRetry}, ""},
		{
			refused("policy"),
			reconcile.Result{RequeueAfter: refusedRetry},
			`Secret "db" is refused there: secrets "db" is forbidden: policy`,
		},
		{nil, reconcile.Result{}, ""},
	} {
		answer = step.answer
		got, err := l.refresh(t.Context(), secret("db"))
		must(t, err)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%v: result (-want +got):\n%s", step.answer, diff)
		}
		event := ""
		if len(reported) > 0 {
			event = <-reported
		}
		if (event == "") != (step.event == "") || !strings.Contains(event, step.event) {
			t.Errorf("%v: event %q, want %q", step.answer, event, step.event)
		}
	}
}

// TestARefusalThatLastsIsReportedAgain has a target that refuses a change all the time.
func TestARefusalThatLastsIsReportedAgain(t *testing.T) {
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "db", errors.New("quota"))
	l, w := leading(t, func() error { return quota })
	l.exists(t, w, "1", "new")
	clock := l.follower.options.Clock.(*clocktesting.FakeClock)
	reported := l.follower.options.Recorder.(*events.FakeRecorder).Events
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	for step, test := range []struct {
		later  time.Duration
		events int
	}{
		{0, 1}, {refusedRetry, 0}, {engage.SayAgainAfter - refusedRetry - 1, 0}, {1, 1},
		{engage.SayAgainAfter - 1, 0}, {1, 1},
	} {
		clock.Step(test.later)
		if _, err := l.refresh(ctx, secret("db")); err != nil {
			t.Fatal(err)
		}
		if got := len(reported); got != test.events {
			t.Errorf("step %d: %d events, want %d", step, got, test.events)
		}
		for len(reported) > 0 {
			<-reported
		}
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "quota") {
		t.Errorf("the log has %q", lines)
	}
}

func TestRightsThatAreMissingAreTriedAgainSoon(t *testing.T) {
	missing := apierrors.NewForbidden(
		schema.GroupResource{Resource: "secrets"}, "db", errors.New(`User "c1" cannot create resource "secrets"`),
	)
	l, w := leading(t, func() error { return missing })
	l.exists(t, w, "1", "new")
	for range 2 {
		got, err := l.refresh(t.Context(), secret("db")) // The queue retries errors after lastRetry at most.
		if got != (reconcile.Result{}) || err == nil {
			t.Errorf("result %v, error %v", got, err)
		}
	}
	reported := l.follower.options.Recorder.(*events.FakeRecorder).Events
	if event := <-reported; !strings.Contains(event, "tried again every "+lastRetry.String()) || len(reported) > 0 {
		t.Errorf("event %q, and %d more", event, len(reported))
	}
}

func TestEnsureDoesNotRelyOnAWriteThatBeganBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		l, w := leading(t, func() error {
			<-released
			return nil
		})
		l.exists(t, w, "1", "old")
		done := make(chan error)
		ensure := func() { done <- l.ensure(t.Context(), secret("db")) }
		go ensure()
		synctest.Wait()
		l.exists(t, w, "2", "new")
		go ensure()
		synctest.Wait()
		close(released)
		must(t, <-done)
		must(t, <-done)
		if got := l.recordOf(secret("db")).version; got != "2" {
			t.Errorf("version %q is there", got)
		}
	})
}

func TestNoWriteOutlivesItsEngagement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := leading(t, nil)
		var disengage context.CancelFunc
		l.life, disengage = context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := l.joinOrWrite(t.Context(), secret("db"), func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			done <- err
		}()
		synctest.Wait()
		disengage()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
