package claims

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
)

// accountOf returns the account of a target whose clock is ahead.
func accountOf(t *testing.T, ahead time.Duration) *wire.Account {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	account := wire.NewAccount(wire.Default(), clock.RealClock{})
	options := wire.Options{Limits: wire.Default(), Account: account}
	connection, err := wire.Harden(&rest.Config{Host: server.URL}, options)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := connection.Config().Transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return account
}

func TestACopyIsKnownAlthoughTheClocksOfClustersDiffer(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"the target is ahead": 2 * time.Hour, "behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.c2.target.Account = accountOf(t, ahead)
			w.store(sourceName, followedClaim(location{}))
			if err := w.Ensure(t.Context(), podWithData(), w.c2.target); err != nil {
				t.Fatal(err)
			}
			made := w.find("c2")
			made.CreationTimestamp = metav1.NewTime(noon().Add(ahead)) // as the target's API server sets it
			if originOf(made, sourceName) != ours {
				t.Errorf("the copy of %s, with annotations %v, is not known", made.CreationTimestamp, made.Annotations)
			}
		})
	}
}
