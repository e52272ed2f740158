package slow

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/hostile"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// trouble is how a target misbehaves, and what is to be seen of it.
type trouble struct {
	misbehave hostile.Misbehaviour
	// reason is that of Responsive=False. It is empty if the target answers well enough.
	reason string
	// pods are created that can go there only.
	pods int
}

// lasting is how long targets are in trouble: more than a minute of the fast clock.
const lasting = 80 * time.Second / speed

func latency(d time.Duration) hostile.Misbehaviour {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		timer := time.NewTimer(d / speed)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		return false
	}
}

// oneOfTwo says yes to one of each two requests, by chance to which. If it said so to each by chance, many in a row
// would pass now and then, and the target would count as well.
func oneOfTwo() func() bool {
	var mu sync.Mutex
	left, chosen := 0, 0
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		if left == 0 {
			left, chosen = 2, rand.IntN(2)
		}
		left--
		return left == chosen
	}
}

// halfOfTheTime answers one of each two requests with a status.
func halfOfTheTime(status int, retryAfter string) hostile.Misbehaviour {
	fails := oneOfTwo()
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if !fails() {
			return false
		}
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		return true
	}
}

// dropping breaks one of each two requests.
func dropping() hostile.Misbehaviour {
	drops := oneOfTwo()
	return func(http.ResponseWriter, *http.Request) bool {
		if drops() {
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// flapping breaks all requests for a while, and none for the same time.
func flapping(every time.Duration) hostile.Misbehaviour {
	begun := time.Now()
	return func(http.ResponseWriter, *http.Request) bool {
		if int(time.Since(begun)/(every/speed))%2 == 0 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
}

// gone answers all watches with the status 410.
func gone(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "" {
		return false
	}
	w.WriteHeader(http.StatusGone)
	return true
}

// expired begins all watches, and then says that their version is too old.
func expired(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "" || r.URL.Query().Get("sendInitialEvents") != "" {
		return false
	}
	hostile.SendJSON(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",`+
		`"reason":"Expired","code":410}}`+"\n")
	return true
}

// closing ends each watch at once.
func closing(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Query().Get("watch") == "" || r.URL.Query().Get("sendInitialEvents") != "" {
		return false
	}
	hostile.SendJSON(w, " ")
	return true
}

// refusing refuses all PodChaperons.
func refusing(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/podchaperons") {
		return false
	}
	w.WriteHeader(http.StatusUnprocessableEntity)
	return true
}

func troubles() map[string]trouble {
	return map[string]trouble{
		"8-seconds": {misbehave: latency(8 * time.Second), reason: v1alpha1.ReasonSlow},
		"half-429":  {misbehave: halfOfTheTime(http.StatusTooManyRequests, ""), reason: v1alpha1.ReasonThrottled},
		"half-429-retry": {
			misbehave: halfOfTheTime(http.StatusTooManyRequests, "1"), reason: v1alpha1.ReasonThrottled,
		},
		"half-500": {
			misbehave: halfOfTheTime(http.StatusInternalServerError, ""), reason: v1alpha1.ReasonFailing,
		},
		"half-dropped":   {misbehave: dropping(), reason: v1alpha1.ReasonFailing},
		"flapping":       {misbehave: flapping(20 * time.Second), reason: v1alpha1.ReasonFailing},
		"410":            {misbehave: gone, reason: v1alpha1.ReasonFailing},
		"410-within":     {misbehave: expired},
		"watches-closed": {misbehave: closing},
		"refuses-pods":   {misbehave: refusing, pods: 50},
	}
}

func TestTargetsInTroubleAreNotDeadAndCostOthersNothing(t *testing.T) {
	all := troubles()
	servers := map[string]*server{}
	for name := range all {
		servers[name] = newServer(t, name)
	}
	for _, s := range servers {
		s.ready(t)
	}
	during, end := context.WithCancel(t.Context())
	travelled := pods.travel(during, t)
	t.Run("in trouble", func(t *testing.T) {
		for name, trouble := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				expectTrouble(t, servers[name], trouble)
			})
		}
	})
	expectNoNewPods(t, all)
	travelled.waitForEnough(t)
	t.Run("back", func(t *testing.T) {
		for name := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				expectRecovery(t, servers[name])
			})
		}
	})
	end()
	travelled.expectAsFast(t)
}

// expectTrouble has a server misbehave for a while. The target must stay connected, and its node Ready. The server goes
// on.
func expectTrouble(t *testing.T, s *server, is trouble) {
	t.Helper()
	s.forget()
	s.Misbehave(is.misbehave)
	for range is.pods {
		env.Must(t, c1.Client.Create(t.Context(), pods.proxy(translate.VirtualNodeName(s.key))))
	}
	ended := time.After(lasting)
	if is.reason != "" {
		// Answers are late on a busy machine, whatever they say. Requests that are given up before a late answer count
		// as failed, and which of the two is more depends on the moment.
		late := []string{v1alpha1.ReasonSlow}
		if is.reason == v1alpha1.ReasonSlow {
			late = append(late, v1alpha1.ReasonFailing)
		}
		got := waitCondition(t, c1, s.key, v1alpha1.ConditionResponsive, metav1.ConditionFalse)
		if got != is.reason && !slices.Contains(late, got) {
			t.Errorf("the reason is %s, want %s", got, is.reason)
		}
	}
	select {
	case <-ended:
	case <-t.Context().Done():
	}
	history, writes, perSecond, most := s.seen(t)
	states := strings.Join(history, "\n")
	if strings.Contains(states, "Connected=False") || strings.Contains(states, "Ready=False") {
		t.Error("the target was taken for dead")
	}
	if is.reason == "" && strings.Contains(states, "Responsive=False/Failing") {
		t.Error("the target was taken for unresponsive")
	}
	if writes > 10 {
		t.Errorf("the status was written %d times", writes)
	}
	// Of a pod, a target is asked once whether it has a delegate, and then to take it, again and again.
	perPod := float64(8*is.pods) / lasting.Seconds()
	if perSecond > 4*speed+perPod || most > 200 {
		t.Errorf("%.1f requests a second, and up to %d, are a storm", perSecond, most)
	}
}

// expectNoNewPods places pods. They must not go to targets that do not answer well.
func expectNoNewPods(t *testing.T, all map[string]trouble) {
	t.Helper()
	var trips errgroup.Group
	for range 10 {
		trips.Go(func() error {
			node, took, err := pods.trip(t.Context(), c1, "")
			for name, trouble := range all {
				bad := translate.VirtualNodeName(types.NamespacedName{Name: name})
				if node == bad && trouble.reason != "" {
					t.Errorf("a pod went to %s, and took %s", node, took)
				}
			}
			return err
		})
	}
	env.Must(t, trips.Wait())
}

// expectRecovery ends the misbehaviour. The target gets pods again after a while, and there is no storm.
func expectRecovery(t *testing.T, s *server) {
	t.Helper()
	s.forget()
	s.Behave()
	waitCondition(t, c1, s.key, v1alpha1.ConditionResponsive, metav1.ConditionTrue)
	history, _, _, most := s.seen(t)
	if strings.Contains(strings.Join(history, "\n"), "Ready=False") {
		t.Error("the target was lost on its return")
	}
	if most > 200 {
		t.Errorf("%d requests in a second are a storm", most)
	}
}
