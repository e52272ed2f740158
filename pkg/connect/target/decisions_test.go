package target

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

var (
	leaseResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	keyC2         = types.NamespacedName{Name: "c2"}
)

func TestWhatAnAbsentLeaseIs(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"it does not exist":          {apierrors.NewNotFound(leaseResource, "us"), true},
		"it may not be read":         {apierrors.NewForbidden(leaseResource, "us", nil), true},
		"an older target":            {&meta.NoKindMatchError{}, true},
		"the target does not answer": {errAway, false},
		"the target is busy":         {apierrors.NewTooManyRequests("busy", 1), false},
	} {
		if absent := ignoreAbsent(test.err) == nil; absent != test.want {
			t.Errorf("%s: absent is %t", name, absent)
		}
	}
}

// A target that had a Lease and has none was perhaps set back, and lacks PodChaperons, too.
func TestATargetMayDoWithoutALeaseIfItNeverHadOneOrSomebodyAcceptsIt(t *testing.T) {
	for name, test := range map[string]struct {
		remembered, accepted int64
		want                 bool
	}{
		"it never had one":                     {0, 0, true},
		"it never had one, with an old accept": {0, 3, true},
		"it had one":                           {7, 0, false},
		"it had one, and somebody accepts it":  {7, 7, true},
		"somebody accepted an earlier loss":    {7, 6, false},
	} {
		e := &engagement{leases: leases{own: types.NamespacedName{Namespace: "admiralty", Name: "us"}}}
		err := e.doWithoutLease(hold.Request{Remembered: test.remembered, Accepted: test.accepted}, "it is gone")
		if (err == nil) != test.want || (e.leases.own.Name == "") != test.want {
			t.Errorf("%s: Lease %q, error %v", name, e.leases.own, err)
		}
		if back := (*hold.TurnedBackError)(nil); err != nil && (!errors.As(err, &back) || back.Missing == "") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestALeaseIsAskedForWithTheHighestEpochThatIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		epoch      int64 // of the loop
		status     v1alpha1.TargetStatus
		annotation string
		remembered int64
		accepted   int64
	}{
		"nothing is known": {},
		"the status knows a higher one": {
			epoch: 3, status: v1alpha1.TargetStatus{Epoch: 5, EpochOf: "here"},
			remembered: 5,
		},
		"the loop knows a higher one": {
			epoch: 6, status: v1alpha1.TargetStatus{Epoch: 5, EpochOf: "here"},
			remembered: 6,
		},
		"the status is of another Lease": {
			epoch: 3, status: v1alpha1.TargetStatus{Epoch: 5, EpochOf: "there"},
			remembered: 3,
		},
		"somebody accepts one":      {annotation: "12", accepted: 12},
		"somebody accepts nonsense": {annotation: "12 or so"},
	} {
		target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}, Status: test.status}
		if test.annotation != "" {
			target.Annotations = map[string]string{v1alpha1.AnnotationAcceptEpoch: test.annotation}
		}
		l := &loop{key: keyC2, epoch: knownEpoch{is: test.epoch, of: "here"}}
		l.options.Client = fakeOf(t, interceptor.Funcs{}, target)
		got := l.request(t.Context(), leases{}, "c2")
		if got.Remembered != test.remembered || got.Accepted != test.accepted {
			t.Errorf("%s: remembered %d, accepted %d", name, got.Remembered, got.Accepted)
		}
	}
}

func TestWhichNamespacesMayHoldDelegates(t *testing.T) {
	pod := func(namespace, node string, change ...func(*corev1.Pod)) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
		p.Spec.SchedulerName, p.Spec.NodeName = v1alpha1.SchedulerName, node
		for _, c := range change {
			c(p)
		}
		return p
	}
	plain := func(p *corev1.Pod) { p.Spec.SchedulerName = corev1.DefaultSchedulerName }
	pods := []client.Object{
		pod("here", "admiralty-c2"), pod("elsewhere", "admiralty-c3"), pod("unbound", ""), pod("plain", "", plain),
	}
	grant := &v1alpha1.SourceGrant{}
	grant.Status.Used, grant.Status.Leaving = []string{"used"}, []string{"left"}
	for name, test := range map[string]struct {
		grant *v1alpha1.SourceGrant
		want  []string
	}{
		"the SourceGrant names some": {grant, []string{"here", "left", "unbound", "used"}},
		"there is no SourceGrant":    {nil, []string{"elsewhere", "here", "unbound"}},
	} {
		l := &loop{options: Options{Client: fakeOf(t, interceptor.Funcs{}, pods...)}}
		got, err := l.needed(t.Context(), "admiralty-c2", test.grant)
		if err != nil || !slices.Equal(slices.Sorted(slices.Values(got.UnsortedList())), test.want) {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
	away := interceptor.Funcs{List: func(
		context.Context, client.WithWatch, client.ObjectList, ...client.ListOption,
	) error {
		return errAway
	}}
	l := &loop{options: Options{Client: fakeOf(t, away)}}
	if _, err := l.needed(t.Context(), "admiralty-c2", nil); !errors.Is(err, errAway) {
		t.Errorf("error %v", err)
	}
}

func TestWhetherATargetIsReadAsAWhole(t *testing.T) {
	for name, test := range map[string]struct {
		of     types.NamespacedName
		answer error
		want   bool
		err    bool
	}{
		"a ClusterTarget that lets us":      {of: keyC2, want: true},
		"a ClusterTarget that refuses it":   {of: keyC2, answer: apierrors.NewForbidden(leaseResource, "", nil)},
		"a ClusterTarget that does not say": {of: keyC2, answer: apierrors.NewInternalError(errAway), err: true},
		"a Target, which has one namespace": {
			of: types.NamespacedName{Namespace: "team", Name: "c2"}, want: true, answer: errAway,
		},
		"a ClusterTarget that does not answer": {of: keyC2, answer: errAway, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecked(t, false)
			l := newLoop(c.connections, test.of, c.refuser, nil)
			live := fakeOf(t, interceptor.Funcs{List: func(
				context.Context, client.WithWatch, client.ObjectList, ...client.ListOption,
			) error {
				return test.answer
			}})
			got, err := l.readsEverywhere(t.Context(), &dialer{live: live})
			if got != test.want || (err != nil) != test.err {
				t.Errorf("%t, error %v", got, err)
			}
		})
	}
}

// refusing answers no request.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errAway }

// The cluster ID that a target publishes proves nothing. So only a target that publishes ours is asked for a proof.
func TestWhichTargetMayBeTheSourceItself(t *testing.T) {
	for name, test := range map[string]struct {
		self            bool
		publishes, ours string
		itself, proves  bool
	}{
		"by its spec":                        {self: true, itself: true},
		"it publishes another ID":            {publishes: "c2", ours: "us"},
		"it publishes none":                  {},
		"it publishes ours":                  {publishes: "us", ours: "us", proves: true},
		"by its spec, and it publishes ours": {self: true, publishes: "us", ours: "us", itself: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecked(t, false)
			c.options.Source.ClusterID, c.options.Config = test.ours, &rest.Config{Host: "http://127.0.0.1:1"}
			l := newLoop(c.connections, keyC2, c.refuser, nil)
			e := &engagement{self: test.self, target: &engage.Target{ClusterID: test.publishes}}
			d := &dialer{config: &rest.Config{Host: "http://127.0.0.1:1", Transport: refusing{}}}
			itself, err := l.isItself(t.Context(), d, e)
			if itself != test.itself || (err != nil || e.unproved) != test.proves {
				t.Errorf("itself: %t, unproved: %t, error %v", itself, e.unproved, err)
			}
		})
	}
}

func TestATurnedBackTargetSaysHowToAcceptIt(t *testing.T) {
	w := want{config: &rest.Config{Host: "https://c2"}}
	back := &hold.TurnedBackError{Remembered: 7, Found: 3}
	missing := &hold.TurnedBackError{Remembered: 7, Missing: "its Lease is gone"}
	for name, test := range map[string]struct {
		back *hold.TurnedBackError
		of   types.NamespacedName
		want []string
	}{
		"a ClusterTarget": {back, keyC2, []string{
			"it is of epoch 3, and was of epoch 7", "etcd restored",
			"kubectl annotate clustertarget.multicluster.admiralty.io c2 --overwrite " +
				v1alpha1.AnnotationAcceptEpoch + "=7",
		}},
		"a Target": {back, types.NamespacedName{Namespace: "team", Name: "c2"}, []string{
			"kubectl annotate target.multicluster.admiralty.io -n team c2 ",
		}},
		"without its Lease": {missing, keyC2, []string{"it was of epoch 7, and its Lease is gone", "helm upgrade"}},
	} {
		got := turnedBack(test.back, test.of, w)
		for _, part := range test.want {
			if got.Reason != v1alpha1.ReasonTurnedBack || !strings.Contains(got.Message, part) {
				t.Errorf("%s: %s lacks %q", name, got.Message, part)
			}
		}
	}
}

func TestAStandbyConnectsOnlyToWhatTheLeaderHasChecked(t *testing.T) {
	connectedNow := []metav1.Condition{{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c2"}}
	for name, test := range map[string]struct {
		namespace string
		enforce   bool
		status    []metav1.Condition
		secret    client.Object
		answer    error // for the Secret
		err       bool
		failure   string
	}{
		"a ClusterTarget": {
			secret: secret, enforce: true,
			failure: v1alpha1.ReasonSecretKeyNotFound,
		},
		"a Target": {
			namespace: "team", secret: secret,
			failure: v1alpha1.ReasonSecretKeyNotFound,
		},
		"a Target that the leader checked": {
			namespace: "team", secret: secret, enforce: true, status: connectedNow,
			failure: v1alpha1.ReasonSecretKeyNotFound,
		},
		"a Target that the leader did not check": {namespace: "team", secret: secret, enforce: true, err: true},
		"without its Secret":                     {failure: v1alpha1.ReasonSecretNotFound},
		"with a Secret that cannot be read":      {answer: errAway, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			key := types.NamespacedName{Namespace: test.namespace, Name: "c2"}
			objects := []client.Object{}
			if key.Namespace == "" {
				target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
				target.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
					Namespace: "team", KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "c2"},
				}
				objects = append(objects, target)
			} else {
				target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "c2"}}
				target.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{Name: "c2"}
				target.Status.Conditions = test.status
				objects = append(objects, target)
			}
			if test.secret != nil {
				objects = append(objects, test.secret.DeepCopyObject().(client.Object))
			}
			f := newChecked(t, false).fixture
			f.options.Client = fakeOf(t, interceptor.Funcs{}, objects...)
			f.options.APIReader = fakeOf(t, interceptor.Funcs{Get: func(
				ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object,
				options ...client.GetOption,
			) error {
				if test.answer != nil {
					return test.answer
				}
				return c.Get(ctx, k, o, options...)
			}}, objects...)
			f.options.Tenants.Enforce = test.enforce
			w, err := (&standby{connections: f.connections}).want(t.Context(), key)
			if (err != nil) != test.err {
				t.Fatalf("error %v", err)
			}
			if err == nil && (w.failure == nil || w.failure.Reason != test.failure) {
				t.Errorf("failure %+v, want %s", w.failure, test.failure)
			}
		})
	}
}

func TestClockDifferencesOfAMinuteCount(t *testing.T) {
	e := &engagement{}
	e.compare(time.Minute)
	if e.ahead != time.Minute {
		t.Errorf("ahead by %s", e.ahead)
	}
}

// Rights that are given anew come one after the other.
func TestATargetIsSetBackOnlyIfItLacksItsLeaseForLongerThanAMoment(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	l, e := &loop{}, &engagement{leases: leases{own: types.NamespacedName{Namespace: "admiralty", Name: "us"}}}
	l.options.Clock = clock
	turnedBack := func(accepted int64) bool {
		err := l.lackLease(e, hold.Request{Remembered: 7, Accepted: accepted}, "it is gone")
		if accepted == 0 && err == nil {
			t.Error("the source acts there without a Lease")
		}
		return errors.As(err, new(*hold.TurnedBackError))
	}
	if turnedBack(0) {
		t.Error("it counts as set back at once")
	}
	clock.Step(lackingFor - time.Second)
	if turnedBack(0) {
		t.Error("it counts as set back after a moment")
	}
	clock.Step(time.Second)
	if !turnedBack(0) {
		t.Error("it lacks the Lease for long, and does not count as set back")
	}
	if turnedBack(7) || !l.lacking.IsZero() {
		t.Error("somebody accepts that the Lease is gone, and it counts as set back")
	}
}

// TestATargetThatDoesNotAnswerLacksNothing has a target that lacks its Lease for a moment before and after an outage.
func TestATargetThatDoesNotAnswerLacksNothing(t *testing.T) {
	for reason, forgets := range map[string]bool{
		v1alpha1.ReasonUnreachable: true, v1alpha1.ReasonForbidden: false,
	} {
		f := newFixture(t, http.StatusUnauthorized)
		l := newLoop(f.connections, keyC2, f.refuser, nil)
		l.lacking = time.Now()
		l.failed(t.Context(), f.refuser, disconnected(reason, ""))
		if l.lacking.IsZero() != forgets {
			t.Errorf("%s: it lacks its Lease since %s", reason, l.lacking)
		}
	}
}
