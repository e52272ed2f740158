package target

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// remembers returns the epoch of the target that a process has seen.
func remembers(t *testing.T, process *hold.Process) int64 {
	t.Helper()
	lease := leaseNamed("another")
	_, err := process.Acquire(t.Context(), t.Context(), hold.Request{
		Target: keyC2, Lease: client.ObjectKeyFromObject(lease), Client: clientOf(t, lease),
	})
	if back := (*hold.TurnedBackError)(nil); errors.As(err, &back) {
		return back.Remembered
	}
	return 0
}

// ofEpoch sets the epoch of a Lease.
func ofEpoch(lease *coordinationv1.Lease, epoch string) *coordinationv1.Lease {
	lease.Annotations = map[string]string{v1alpha1.AnnotationEpoch: epoch}
	return lease
}

func TestAWatchOfAStandbyEndsWithItsEvents(t *testing.T) {
	for name, send := range map[string]func(*apiwatch.FakeWatcher){
		"the stream ends":   func(w *apiwatch.FakeWatcher) { w.Stop() },
		"an error is sent":  func(w *apiwatch.FakeWatcher) { w.Error(&metav1.Status{}) },
		"something is sent": func(w *apiwatch.FakeWatcher) { w.Add(&corev1.Pod{}) },
	} {
		r := newReaching(t, keyC2)
		r.options.Holds = hold.New(hold.Options{ClusterID: "c1", Name: "manager", Clock: r.clock})
		s := &standby{connections: r.connections}
		events, ended := apiwatch.NewFake(), make(chan error, 1)
		go func() { ended <- s.note(t.Context(), keyC2, events) }()
		events.Modify(ofEpoch(leaseNamed("us"), "5"))
		send(events)
		if err := waittest.Receive(t, "the end", ended); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := remembers(t, r.options.Holds); got < 5 {
			t.Errorf("%s: the epoch that was seen is %d", name, got)
		}
	}
}

// standingBy returns a standby whose target c2 has the objects.
func standingBy(t *testing.T, objects ...client.Object) (*reaching, *standby) {
	t.Helper()
	r := newReaching(t, keyC2, objects...)
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}, Spec: refer("", "")}
	server := httptest.NewTLSServer(http.HandlerFunc(r.server.serve)) // Kubeconfigs must have https.
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	secret := secretOfC2(strings.Replace(kubeconfigOfC2, `"https://c2.example"`, fmt.Sprintf(
		"%q, certificate-authority-data: %s", server.URL, base64.StdEncoding.EncodeToString(authority)), 1))
	r.options.Client = fakeOf(t, interceptor.Funcs{}, target)
	r.options.APIReader = fakeOf(t, interceptor.Funcs{}, secret)
	r.options.Holds = hold.New(hold.Options{ClusterID: "c1", Name: "manager", Clock: r.clock})
	return r, &standby{connections: r.connections}
}

func TestAStandbySeesTheLeaseOfATargetAndItsChanges(t *testing.T) {
	r, s := standingBy(t, grantOf(leasing), ofEpoch(leaseNamed("us"), "5"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.watchOnce(ctx, keyC2) }()
	waittest.Eventually(t, "the Lease is watched", func() bool {
		return r.server.count("watched leases admiralty") > 0
	})
	if got := remembers(t, r.options.Holds); got != 5 {
		t.Errorf("the epoch that was seen first is %d", got)
	}
	lease := leaseNamed("us")
	if err := r.server.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
		t.Fatal(err)
	}
	if err := r.server.Update(t.Context(), ofEpoch(lease, "7")); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the change is seen", func() bool { return remembers(t, r.options.Holds) == 7 })
	stop()
	if err := waittest.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

func TestWhatAStandbyCannotSeeItTriesAgain(t *testing.T) {
	forbidden := apierrors.NewForbidden(leaseResource, "us", nil)
	for name, test := range map[string]struct {
		given func(r *reaching)
		grant func(*v1alpha1.SourceGrant)
		fails bool
		looks bool // at the Lease
	}{
		"a target without Leases":      {grant: func(*v1alpha1.SourceGrant) {}},
		"a target that is away":        {given: answering("create selfsubjectreviews", errAway), fails: true},
		"a Lease that may not be read": {given: answering("get leases", forbidden), fails: true, looks: true},
		"a Lease that may not be watched": {
			given: answering("watch leases", forbidden), fails: true, looks: true,
		},
		"a target without its Secret": {given: func(r *reaching) {
			r.options.APIReader = fakeOf(t, interceptor.Funcs{})
		}},
		"a Secret that cannot be read": {
			given: func(r *reaching) {
				r.options.APIReader = fakeOf(t, interceptor.Funcs{Get: func(
					context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption,
				) error {
					return errAway
				}})
			},
			fails: true,
		},
		"this cluster itself": {given: func(r *reaching) {
			self := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
			self.Spec.Self = true
			r.options.Client = fakeOf(t, interceptor.Funcs{}, self)
			r.options.Config = &rest.Config{Host: r.server.host}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.grant == nil {
				test.grant = leasing
			}
			r, s := standingBy(t, grantOf(test.grant), ofEpoch(leaseNamed("us"), "5"))
			if test.given != nil {
				test.given(r)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := s.watchOnce(ctx, keyC2); (err != nil) != test.fails || ctx.Err() != nil {
				t.Errorf("error %v", err)
			}
			if looks := r.server.count("get leases") > 0; looks != test.looks {
				t.Errorf("it looked at a Lease: %t", looks)
			}
		})
	}
}

func answering(request string, err error) func(*reaching) {
	return func(r *reaching) { r.server.answer(request, err) }
}
