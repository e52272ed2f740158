package target

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/awake"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// A target whose namespace of Leases was deleted still has a SourceGrant that names the Lease. Without this Lease,
// there is no reason to engage the target anew each minute.
func TestALeaseAppearsOnlyIfItExists(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}`
	for name, test := range map[string]struct {
		code   int
		body   string
		sought time.Duration // ago, for the last time
		want   bool
	}{
		"it exists": {http.StatusOK, lease, leaseInterval, true},
		"it is gone": {
			http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`,
			leaseInterval, false,
		},
		"it may not be read": {
			http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403}`,
			leaseInterval, false,
		},
		"nobody looks so soon again": {http.StatusOK, lease, leaseInterval - time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", runtime.ContentTypeJSON)
				code, body := test.code, test.body
				switch path.Base(path.Dir(r.URL.Path)) {
				case "v1":
					code, body = http.StatusCreated,
						`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`
				case "sourcegrants":
					code, body = http.StatusOK, `{"kind":"SourceGrant",
						"apiVersion":"multicluster.admiralty.io/v1alpha1",
						"status":{"lease":{"namespace":"leases","name":"c1"}}}`
				}
				w.WriteHeader(code)
				_, _ = w.Write([]byte(body))
			}))
			t.Cleanup(server.Close)
			config := &rest.Config{Host: server.URL}
			config.ContentType = runtime.ContentTypeJSON
			f := newFixture(t, http.StatusUnauthorized)
			l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
			l.engaged = &engagement{leasesSought: f.clock.Now().Add(-test.sought), dialer: &dialer{
				deadline: l.deadline,
				config:   config, clients: server.Client(), scheme: scheme, mapper: newMapper(),
			}}
			if got := l.leaseAppeared(t.Context(), f.clock.Now()); got != test.want {
				t.Errorf("it appeared: %t", got)
			}
		})
	}
}

// A manager is silent only if its Lease was read, and not renewed.
func TestSilenceIsSeenInALeaseThatIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want awake.State
	}{
		"it is not renewed":                  {nil, awake.Silent},
		"there is none":                      {apierrors.NewNotFound(leaseResource, "manager"), awake.NoLease},
		"an older target":                    {apierrors.NewForbidden(leaseResource, "manager", nil), awake.NoLease},
		"the target does not answer for now": {errAway, awake.Awake},
	} {
		f := newFixture(t, http.StatusUnauthorized)
		l := newLoop(f.connections, keyC2, f.refuser, nil)
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: v1alpha1.LeaseManager, UID: "1"},
		}
		funcs := interceptor.Funcs{Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if test.err != nil {
				return test.err
			}
			return c.Get(ctx, key, o, options...)
		}}
		l.engaged = &engagement{target: &engage.Target{Key: keyC2}, leases: leases{
			client: fake.NewClientBuilder().WithObjects(lease).WithInterceptorFuncs(funcs).Build(),
			own:    types.NamespacedName{Namespace: "leases", Name: "us"},
		}}
		l.awake.Look(nil, f.clock.Now())
		l.awake.Look(lease, f.clock.Now())
		f.clock.Step(timeouts.SilentAfter)
		l.lookAwake(t.Context())
		if got := l.awake.State(); got != test.want {
			t.Errorf("%s: the state is %d, want %d", name, got, test.want)
		}
	}
}

// TestALostLeaseIsFoundBeforeTheTargetFences has the time in which the target makes a lost Lease again: see lastRetry
// in package grants.
func TestALostLeaseIsFoundBeforeTheTargetFences(t *testing.T) {
	const madeAgain = 30 * time.Second
	if madeAgain+leaseInterval+timeouts.Request > timeouts.FenceLeast {
		t.Errorf("a source may look for its Lease after %s", madeAgain+leaseInterval)
	}
}
