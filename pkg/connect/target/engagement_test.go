package target

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/responsive"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

// loopWith returns a loop whose target has answered so.
func loopWith(t *testing.T, answers ...responsive.Answer) *loop {
	t.Helper()
	f := newFixture(t, http.StatusOK)
	l := newLoop(f.connections, keyC2, f.refuser, nil)
	for _, answer := range answers {
		l.quality.Note(answer, f.clock.Now())
	}
	return l
}

func TestASlowTargetGetsMoreTimeForItsFirstList(t *testing.T) {
	for name, test := range map[string]struct {
		answers []responsive.Answer
		want    time.Duration
	}{
		"nothing is known": {want: syncTimeout},
		"it answers well":  {answers: []responsive.Answer{responsive.Good}, want: syncTimeout},
		"it is slow":       {answers: []responsive.Answer{responsive.Good, responsive.Slow}, want: slowSyncTimeout},
		"it does not answer": {
			answers: []responsive.Answer{responsive.Failed, responsive.Failed, responsive.Failed}, want: syncTimeout,
		},
	} {
		if got := loopWith(t, test.answers...).syncTimeout(); got != test.want {
			t.Errorf("%s: it gets %s", name, got)
		}
	}
}

func TestWhichFailuresOfAWatchEndAnAttempt(t *testing.T) {
	passing := apierrors.NewServiceUnavailable("busy")
	refusal := apierrors.NewForbidden(leaseResource, "", nil)
	for name, test := range map[string]struct {
		err     error
		answers []responsive.Answer
		ends    bool
	}{
		"it passes, and the target answers":       {passing, []responsive.Answer{responsive.Good}, false},
		"it passes, and nothing was heard":        {passing, nil, true},
		"it does not pass":                        {refusal, []responsive.Answer{responsive.Good}, true},
		"it does not pass, and nothing was heard": {refusal, nil, true},
	} {
		e, ended := &engagement{}, false
		loopWith(t, test.answers...).watchFailed(e, func() { ended = true })(t.Context(), nil, test.err)
		if ended != test.ends {
			t.Errorf("%s: the attempt ends: %t", name, ended)
		}
		if last := e.watchError.Load(); last == nil || !errors.Is(*last, test.err) {
			t.Errorf("%s: the error is not kept", name)
		}
	}
}

func TestWhyACacheHasNotSynced(t *testing.T) {
	for name, test := range map[string]struct{ watch, stopped, want error }{
		"a watch failed":        {watch: errAway, stopped: errEnded, want: errAway},
		"the cache has stopped": {stopped: errEnded, want: errEnded},
		"it took too long":      {want: errNotSynced},
	} {
		var watchError atomic.Pointer[error]
		if test.watch != nil {
			watchError.Store(&test.watch)
		}
		stopped := make(chan error, 1)
		if test.stopped != nil {
			stopped <- test.stopped
		}
		if err := syncError(&watchError, stopped); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestWhichClusterATargetBelongsTo(t *testing.T) {
	for name, test := range map[string]struct {
		want  want
		known string
		id    string
	}{
		"nobody knows":            {},
		"it was connected":        {known: "c2", id: "c2"},
		"by its spec":             {want: want{pin: "c3"}, known: "c2", id: "c3"},
		"it is the source itself": {want: want{self: true, pin: "c3"}, known: "c2"},
	} {
		l := &loop{known: test.known}
		if got := l.belongsTo(test.want).ClusterID(); got != test.id {
			t.Errorf("%s: it belongs to %q", name, got)
		}
	}
}

func TestWhatIsKeptOfAnObject(t *testing.T) {
	large := delegated("shop", "c2")
	large.Annotations["large"] = strings.Repeat("x", 5000)
	large.Status.Message = strings.Repeat("x", 3000)
	if got := sizeOf(large); got < 1024+8000 || got > 1024+9000 {
		t.Errorf("a PodChaperon counts as %d bytes", got)
	}
	if got := sizeOf(summaryOf("c2")); got != wire.Default().Object {
		t.Errorf("a summary counts as %d bytes", got)
	}
}

func TestAnObjectThatCannotBeReadIsAViolation(t *testing.T) {
	l := loopWith(t)
	d := &dialer{account: l.attempt.account}
	if d.recovering(nil) != nil {
		t.Error("there is nothing to recover from")
	}
	object, err := d.recovering(func(o any) (any, error) { return o, nil })(7)
	if object != 7 || err != nil || d.account.Violation() != nil {
		t.Errorf("got %v, error %v, violation %v", object, err, d.account.Violation())
	}
	_, err = d.recovering(func(any) (any, error) { panic("broken") })(7)
	if err == nil || !strings.Contains(err.Error(), "broken") || d.account.Violation() == nil {
		t.Errorf("error %v, violation %v", err, d.account.Violation())
	}
}

func TestWhatAConnectedTargetSays(t *testing.T) {
	w := want{config: &rest.Config{Host: "https://c2.example"}}
	forged := &gate.ForgedError{Reason: "it is too large"}
	for name, test := range map[string]struct {
		unproved bool
		invalid  *gate.ForgedError
		reason   string
		says     string
	}{
		"nothing special":             {reason: v1alpha1.ReasonConnected},
		"it may be the source itself": {unproved: true, reason: v1alpha1.ReasonConnected, says: "set spec.self: true"},
		"its summary is invalid": {
			invalid: forged, reason: v1alpha1.ReasonInvalidSummary, says: "the last valid one counts: it is too large",
		},
	} {
		got := (&engagement{unproved: test.unproved}).condition(w, "v1.37.0", test.invalid)
		if got.Status != metav1.ConditionTrue || got.Reason != test.reason {
			t.Errorf("%s: %+v", name, got)
		}
		const plain = "connected to https://c2.example, Kubernetes v1.37.0"
		if !strings.HasPrefix(got.Message, plain) || !strings.Contains(got.Message, test.says) ||
			(got.Message == plain) != (test.says == "") {
			t.Errorf("%s: message %q", name, got.Message)
		}
	}
}

// waiting are addresses that are known only later.
type waiting struct{ ownAddress }

func (waiting) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestNobodyDialsBeforeTheOwnAddressesAreKnown(t *testing.T) {
	r := newReaching(t, types.NamespacedName{Namespace: "team", Name: "c2"}, summaryOf("c2"))
	r.loop.options.Addresses = waiting{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.loop.reach(ctx, r.life, r.want)
	if own := (*ownAddressesError)(nil); !errors.As(err, &own) || r.server.count("get version") > 0 {
		t.Errorf("error %v", err)
	}
}
