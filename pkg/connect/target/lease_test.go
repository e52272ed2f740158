package target

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// A target whose namespace of Leases was deleted still has a SourceGrant that names the Lease. Without this Lease,
// there is no reason to engage the target anew each minute.
func TestALeaseAppearsOnlyIfItExists(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		code int
		body string
		want bool
	}{
		"it exists": {http.StatusOK, `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1"}`, true},
		"it is gone": {
			http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","reason":"NotFound","code":404}`, false,
		},
		"it may not be read": {
			http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403}`, false,
		},
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
			l.engaged = &engagement{dialer: &dialer{
				deadline: l.deadline,
				config:   config, clients: server.Client(), scheme: scheme, mapper: newMapper(),
			}}
			if got := l.leaseAppeared(t.Context(), f.clock.Now()); got != test.want {
				t.Errorf("it appeared: %t", got)
			}
		})
	}
}
