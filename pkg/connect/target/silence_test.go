package target

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

func TestWhenATargetIsDead(t *testing.T) {
	type request struct {
		at, took time.Duration // since the beginning
		answered bool
	}
	for name, test := range map[string]struct {
		requests []request
		at       time.Duration
		dead     bool
	}{
		"nothing was asked":                            {nil, time.Hour, false},
		"it has answered, and nothing was asked since": {[]request{{0, 0, true}}, time.Hour, false},
		"one answer did not come": {
			[]request{{0, 0, true}, {10 * time.Second, 0, false}}, deadAfter - time.Second, false,
		},
		"no answer came for long": {
			[]request{{0, 0, true}, {10 * time.Second, 0, false}}, deadAfter, true,
		},
		"it has answered again": {
			[]request{{0, 0, true}, {40 * time.Second, 0, false}, {41 * time.Second, 0, true}}, time.Hour, false,
		},
		"it never answered: the first request counts from its beginning": {
			[]request{{10 * time.Second, 10 * time.Second, false}}, deadAfter, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s silence
			began := time.Now()
			for _, r := range test.requests {
				s.note(r.answered, r.took, began.Add(r.at))
			}
			if dead := s.dead(began.Add(test.at)); dead != test.dead {
				t.Errorf("dead: %t", dead)
			}
		})
	}
}

func TestATimeInWhichNobodyAsksIsNoSilence(t *testing.T) {
	var s silence
	began := time.Now()
	s.note(true, 0, began)
	s.forget()
	s.note(false, time.Second, began.Add(time.Hour))
	if s.dead(began.Add(time.Hour)) {
		t.Error("the target is dead after one request without an answer")
	}
}

func TestAnAttemptEndsWhenTheTargetIsFoundDead(t *testing.T) {
	var s silence
	began := time.Now()
	s.note(true, 0, began)
	ctx, over, cancel := s.bound(t.Context(), began)
	defer cancel()
	s.note(false, time.Second, began.Add(deadAfter-1))
	if ctx.Err() != nil {
		t.Fatal("the attempt ends too early")
	}
	s.note(false, time.Second, began.Add(deadAfter))
	if ctx.Err() == nil {
		t.Fatal("the attempt goes on")
	}
	over()

	ctx, over, cancel = s.bound(t.Context(), began.Add(deadAfter))
	defer cancel()
	s.note(false, time.Second, began.Add(2*deadAfter))
	over()
	if ctx.Err() != nil {
		t.Error("an attempt to connect to a dead target ends because the target is dead")
	}

	s.note(true, 0, began.Add(3*deadAfter))
	ctx, over, cancel = s.bound(t.Context(), began.Add(3*deadAfter))
	defer cancel()
	over()
	s.note(false, time.Second, began.Add(4*deadAfter))
	if ctx.Err() != nil {
		t.Error("what came of the attempt ends with the next silence")
	}
}

func TestTheNextAttemptBeginsWhenASilentTargetMayBeFoundDead(t *testing.T) {
	var s silence
	began := time.Now()
	check := func(what string, at, d, want time.Duration) {
		t.Helper()
		if got := s.pause(d, began.Add(at)); got != want {
			t.Errorf("%s: the pause is %s, want %s", what, got, want)
		}
	}
	check("nothing was asked", 0, time.Minute, time.Minute)
	s.note(true, 0, began)
	check("it has answered", time.Second, time.Minute, time.Minute)
	s.note(false, time.Second, began.Add(20*time.Second))
	check("it will not be dead yet", 20*time.Second, 10*time.Second, 10*time.Second)
	check("it will have been dead for long", 20*time.Second, 20*time.Second, deadAfter-20*time.Second)
	check("it is dead", deadAfter, time.Minute, time.Minute)
}

// A leader may have just begun when a target stops answering. Each step of connecting is repeated, because the target
// has answered of late.
func TestATargetThatStopsAnsweringWhileItIsConnectedToIsLost(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	asked := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"gitVersion":"v1.37.1"}`)
		asked <- struct{}{}
	}))
	began := f.clock.Now()
	w := want{fingerprint: "stops", config: &rest.Config{Host: server.URL}, wasConnected: true}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.set(ctx, keyC2, w, nil)
	waittest.Receive(t, "the only request that is answered", asked)
	server.Close()
	f.isLost(t, w)
	if took := f.clock.Since(began); took < deadAfter || took > 50*time.Second {
		t.Errorf("it took %s", took)
	}
}
