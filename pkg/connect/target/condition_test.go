package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

func TestFailedCondition(t *testing.T) {
	w := want{config: &rest.Config{Host: "https://c2.example"}, credentials: "those in Secret admiralty/c2"}
	summaries := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "clustersummaries"}
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 41234}
	for name, test := range map[string]struct {
		err          error
		reason, text string
	}{
		"credentials that are refused": {
			apierrors.NewUnauthorized("no"), v1alpha1.ReasonUnauthorized, "(those in Secret admiralty/c2)",
		},
		"a cluster that does not say which one it is": {
			&identity.UnknownError{Want: "id-of-c2"}, v1alpha1.ReasonNoClusterID, "another one than id-of-c2",
		},
		"missing rights": {
			apierrors.NewForbidden(summaries, "singleton", errors.New("no")), v1alpha1.ReasonForbidden,
			"ClusterSource or Source",
		},
		"missing rights, with missing roles in random order": {
			apierrors.NewForbidden(
				summaries, "singleton", errors.New(`no: RBAC: [clusterrole "b" not found, clusterrole "a" not found]`),
			),
			v1alpha1.ReasonForbidden, "is forbidden: no; is there",
		},
		"no ClusterSummary": {
			apierrors.NewNotFound(summaries, "singleton"), v1alpha1.ReasonNotInstalled,
			"install multicluster-scheduler",
		},
		"no such kind": {&meta.NoKindMatchError{}, v1alpha1.ReasonNotInstalled, "install multicluster-scheduler"},
		"no answer": {
			&url.Error{Op: "Get", URL: "u", Err: context.DeadlineExceeded}, v1alpha1.ReasonUnreachable,
			"https://c2.example: it took too long;",
		},
		"a closed port": {
			&url.Error{Op: "Get", URL: "u", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
			v1alpha1.ReasonUnreachable, ": dial: connection refused;",
		},
		"a certificate of another authority": {
			&url.Error{Op: "Get", URL: "u", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
			v1alpha1.ReasonUnreachable, "is not trusted: x509: ",
		},
		"a certificate that is not valid yet, by this cluster's clock": {
			&url.Error{Op: "Get", URL: "u", Err: &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{
				Cert:   &x509.Certificate{NotBefore: time.Unix(3600, 0), NotAfter: time.Unix(7200, 0)},
				Reason: x509.Expired, Detail: "current time 1970-01-01T00:59:59Z is before 1970-01-01T01:00:00Z",
			}}},
			v1alpha1.ReasonUnreachable, "by this cluster's clock, a certificate of https://c2.example is not valid " +
				"now, but from 1970-01-01T01:00:00Z to 1970-01-01T02:00:00Z; renew it",
		},
		"a certificate that has expired, and is not known": {
			&url.Error{Op: "Get", URL: "u", Err: &tls.CertificateVerificationError{
				Err: x509.CertificateInvalidError{Reason: x509.Expired},
			}},
			v1alpha1.ReasonUnreachable, "is not trusted: ",
		},
		"a certificate that may not sign others": {
			&url.Error{Op: "Get", URL: "u", Err: &tls.CertificateVerificationError{
				Err: x509.CertificateInvalidError{Cert: &x509.Certificate{}, Reason: x509.NotAuthorizedToSign},
			}},
			v1alpha1.ReasonUnreachable, "is not trusted: ",
		},
		"a connection that nobody accepts": {
			&url.Error{Op: "Get", URL: "u", Err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}},
			v1alpha1.ReasonUnreachable, "https://c2.example: it took too long;",
		},
		"a full etcd": {
			fmt.Errorf("writing a Lease: %w", apierrors.NewInternalError(
				errors.New("etcdserver: mvcc: database space exceeded"))),
			v1alpha1.ReasonStorageFull, "https://c2.example answers, but its etcd is full",
		},
		"a redirect": {
			&url.Error{Op: "Get", URL: "u", Err: &wire.AnswerError{Answer: "it answers with a redirect"}},
			v1alpha1.ReasonUnreachable, ": it answers with a redirect;",
		},
		"an address that Targets must not have": {
			&url.Error{Op: "Get", URL: "u", Err: &net.OpError{
				Op: "dial", Err: &wire.AddressError{Address: "127.0.0.1", Reason: "a loopback one", Value: "tenants.x"},
			}},
			v1alpha1.ReasonAddressRefused, "127.0.0.1 is a loopback one; use an address that the target alone " +
				"has, or ask the administrators to set the chart's tenants.x",
		},
		"an error whose text does not help": {
			apierrors.NewInternalError(errors.New("leave this out")), v1alpha1.ReasonUnreachable,
			": it answers with the status 500 Internal Server Error;",
		},
		"a long text with control characters": {
			apierrors.NewForbidden(summaries, "s", errors.New("x\x1b[31m\n"+strings.Repeat("a", 1<<20))),
			v1alpha1.ReasonForbidden, "x[31m aaa",
		},
		"a connection that broke, whatever its port was": {
			&url.Error{Op: "Get", URL: "u", Err: &net.OpError{Op: "read", Source: from, Err: errors.New("reset")}},
			v1alpha1.ReasonUnreachable, ": read: reset;",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := failedCondition(fmt.Errorf("asking: %w", test.err), types.NamespacedName{Name: "c2"}, w)
			if got.Reason != test.reason || !strings.Contains(got.Message, test.text) ||
				!strings.Contains(got.Message, w.config.Host) || len(got.Message) > 600 {
				t.Errorf("got %s: %s", got.Reason, got.Message)
			}
		})
	}
}

// check is a health check, and when it ended.
type check struct {
	at  time.Duration
	err error
}

func TestHealthIsLostAfterMissesAndSilence(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	miss := errors.New("no")
	at := func(seconds int, err error) check { return check{time.Duration(seconds) * time.Second, err} }
	for name, test := range map[string]struct {
		checks []check
		lost   bool
		since  time.Duration
	}{
		"two early failures":             {[]check{at(15, miss), at(30, miss)}, false, 15 * time.Second},
		"two failures, the second late":  {[]check{at(25, miss), at(35, miss)}, true, 25 * time.Second},
		"one late failure":               {[]check{at(40, miss)}, false, 40 * time.Second},
		"three that were time-outs":      {[]check{at(15, miss), at(30, miss), at(40, miss)}, true, 15 * time.Second},
		"three at once":                  {[]check{at(10, miss), at(20, miss), at(30, miss)}, false, 10 * time.Second},
		"one more, because a hold ended": {[]check{at(1, miss), at(11, miss), at(12, miss)}, false, time.Second},
		"four at once": {
			[]check{at(10, miss), at(20, miss), at(30, miss), at(40, miss)}, true, 10 * time.Second,
		},
		"three failures with a success between": {
			[]check{at(10, miss), at(20, miss), at(30, nil), at(40, miss)}, false, 40 * time.Second,
		},
		"four failures after a success": {
			[]check{at(10, nil), at(20, miss), at(30, miss), at(40, miss), at(50, miss)}, true, 20 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := health{answered: start}
			for _, c := range test.checks {
				at := start.Add(c.at)
				h = h.after(c.err, at, at)
			}
			if h.lost != test.lost || h.since != start.Add(test.since) {
				t.Errorf("lost is %v since %s", h.lost, h.since)
			}
			if h = h.after(nil, start, start.Add(time.Minute)); h.lost || h.misses > 0 {
				t.Errorf("a success leaves %+v", h)
			}
		})
	}
	h := health{answered: start, misses: 3, since: start}
	for after, want := range map[time.Duration]time.Duration{
		0: 45 * time.Second, 40 * time.Second: 5 * time.Second, 44 * time.Second: 2 * time.Second,
		time.Hour: 2 * time.Second,
	} {
		if got := h.within(start.Add(after)); got != want {
			t.Errorf("a check may wait for %s, %s after the last answer, want %s", got, after, want)
		}
	}
	got := h.condition(miss, types.NamespacedName{Name: "c2"}, want{config: &rest.Config{}})
	if !strings.HasPrefix(got.Message, "since 2030-01-02T03:04:05Z, no answer") {
		t.Errorf("message %q", got.Message)
	}
}

func TestAWatchIsDeniedByWhatDoesNotPass(t *testing.T) {
	chaperons := schema.GroupResource{Group: v1alpha1.GroupName, Resource: "podchaperons"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                            {nil, false},
		"a lost connection":                   {errors.New("http2: client connection lost"), false},
		"an old version":                      {apierrors.NewResourceExpired("too old"), false},
		"rights that were withdrawn":          {apierrors.NewForbidden(chaperons, "", nil), true},
		"an expired token":                    {apierrors.NewUnauthorized("no"), true},
		"a kind that does not exist any more": {apierrors.NewNotFound(chaperons, ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engagement{}
			if test.err != nil {
				e.watchError.Store(&test.err)
			}
			if got := e.denied(); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheConditionOfAnotherClusterSaysWhatToDo(t *testing.T) {
	w := want{config: &rest.Config{Host: "https://c2.example"}, credentials: "those in Secret admiralty/c2"}
	other := &identity.OtherClusterError{Want: "id-of-c2", Seen: "id-of-c3"}
	for name, test := range map[string]struct{ pin, belongs string }{
		"by what was seen first": {"", "which was connected before"},
		"by the spec":            {"id-of-c2", "see spec.clusterID"},
	} {
		t.Run(name, func(t *testing.T) {
			w.pin = test.pin
			got := otherCluster(other, types.NamespacedName{Name: "c2"}, w)
			if got.Reason != v1alpha1.ReasonOtherCluster || got.Status != metav1.ConditionFalse {
				t.Errorf("got %+v", got)
			}
			for _, text := range []string{
				"https://c2.example", "its ID is id-of-c3", "the cluster id-of-c2 (" + test.belongs,
				"Secret admiralty/c2",
				"set spec.clusterID to id-of-c3", "kubectl multicluster connect c2 --target-context CONTEXT --accept",
			} {
				if !strings.Contains(got.Message, text) {
					t.Errorf("it does not say %q: %s", text, got.Message)
				}
			}
		})
	}
}

func TestAConditionSaysThatFencedPodsAreStopped(t *testing.T) {
	const (
		stopped = "; pods with fencing are stopped there when their time is over"
		perhaps = stopped + ", unless this cluster was revoked there, or the chart was uninstalled"
	)
	for reason, want := range map[string]string{
		v1alpha1.ReasonUnauthorized: perhaps, v1alpha1.ReasonForbidden: perhaps, v1alpha1.ReasonNoKey: stopped,
		v1alpha1.ReasonSecretNotFound: stopped, v1alpha1.ReasonOverBudget: stopped, v1alpha1.ReasonTurnedBack: stopped,
		v1alpha1.ReasonOtherCluster: stopped, v1alpha1.ReasonUnreachable: "", v1alpha1.ReasonFlapping: "",
		v1alpha1.ReasonHeldByOther: "", v1alpha1.ReasonStorageFull: "", v1alpha1.ReasonAddressRefused: stopped,
		v1alpha1.ReasonNotInstalled: "",
	} {
		t.Run(reason, func(t *testing.T) {
			message := withFences(disconnected(reason, "repair it")).Message
			if message != "repair it"+want {
				t.Errorf("message %q", message)
			}
			if withFences(connected(metav1.ConditionTrue, reason, "x")).Message != "x" {
				t.Error("a connected target stops none")
			}
		})
	}
}

func TestAConnectedTargetSaysThatAnotherClusterHasItsUser(t *testing.T) {
	e := &engagement{sharedWith: "c9"}
	got := e.condition(want{config: &rest.Config{Host: "https://c2.example"}}, "v1.37.0", nil)
	const text = `; cluster "c9" uses the same user there, so nothing protects this cluster from copies, and no pod ` +
		"is fenced; connect with a user of its own"
	if got.Status != metav1.ConditionTrue || !strings.HasSuffix(got.Message, text) {
		t.Errorf("got %s: %s", got.Status, got.Message)
	}
}

func TestARivalOfThisSourceIsSucceededByARestart(t *testing.T) {
	w := want{config: &rest.Config{Host: "https://c2.example"}}
	got, unsafe := (&loop{}).unsafeCondition(&hold.OtherError{Holder: "manager-1"}, w)
	const text = "restart this manager at once: it takes over within about 15s. Without a restart it waits 10m0s, " +
		"and by then the target has stopped all pods with a shorter fence"
	if !unsafe || got.Reason != v1alpha1.ReasonHeldByOther || !strings.HasSuffix(got.Message, text) {
		t.Errorf("unsafe %t, got %s: %s", unsafe, got.Reason, got.Message)
	}
}
