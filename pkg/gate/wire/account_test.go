package wire

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"
)

func TestAnAccountIsExceeded(t *testing.T) {
	fake := testclock.NewFakeClock(time.Now())
	for name, test := range map[string]struct {
		cost func(*Account)
		want string
	}{
		"by no violation": {func(*Account) {}, ""},
		"by few violations": {func(a *Account) {
			for range 4 {
				a.Violated("few")
			}
		}, ""},
		"by violations in hours": {func(a *Account) {
			for range 20 {
				fake.Step(time.Hour)
				a.Violated("seldom")
			}
		}, ""},
		"by violations within minutes": {func(a *Account) {
			fake.Step(24 * time.Hour)
			for range 5 {
				fake.Step(time.Minute)
				a.Violated("often")
			}
		}, "often"},
		"not by violations that are as far apart as allowed": {func(a *Account) {
			for range 5 {
				fake.Step(150 * time.Second)
				a.Violated("now and then")
			}
		}, ""},
		"not by as many objects as allowed": {func(a *Account) { a.Keep(21_000, 128<<20) }, ""},
		"by objects": {func(a *Account) {
			a.Keep(20_000, 0)
			a.Keep(1_001, 0)
		}, "21000 objects"},
		"by bytes": {func(a *Account) { a.Keep(1, 128<<20); a.Keep(1, 1) }, "128 MiB"},
		"not by objects that come and go": {func(a *Account) {
			for range 100 {
				a.Keep(1_000, 8<<20)
				a.Keep(-1_000, -8<<20)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAccount(Default(), fake)
			test.cost(a)
			exceeded := false
			select {
			case <-a.Exceeded():
				exceeded = true
			default:
			}
			err := a.Err()
			if exceeded != (test.want != "") || exceeded != (err != nil) || err != nil &&
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("exceeded %v, %v", exceeded, err)
			}
		})
	}
}

// events is an informer that hands out its events by hand.
type events struct {
	cache.SharedInformer
	cache.ResourceEventHandler
	err error
}

func (e *events) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	e.ResourceEventHandler = h
	return nil, e.err
}

func TestAnAccountKeepsAllOfAStore(t *testing.T) {
	a, informer := NewAccount(Default(), testclock.NewFakeClock(time.Time{})), &events{}
	if err := a.KeepAllOf(informer, func(object any) int64 { return object.(int64) }); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		event          func()
		objects, bytes int64
	}{
		{func() { informer.OnAdd(int64(70), true) }, 1, 70},
		{func() { informer.OnAdd(int64(5), false) }, 2, 75},
		{func() { informer.OnUpdate(int64(70), int64(20)) }, 2, 25},
		{func() { informer.OnDelete(int64(5)) }, 1, 20},
		{func() { informer.OnDelete(cache.DeletedFinalStateUnknown{Obj: int64(20)}) }, 0, 0},
	} {
		if step.event(); a.objects != step.objects || a.bytes != step.bytes {
			t.Errorf("%d objects with %d bytes, want %d with %d", a.objects, a.bytes, step.objects, step.bytes)
		}
	}
	informer.err = errors.New("it has stopped")
	if err := a.KeepAllOf(informer, nil); !errors.Is(err, informer.err) {
		t.Errorf("error %v", err)
	}
}

func TestAnAccountKnowsHowFarTheClockOfATargetIsAhead(t *testing.T) {
	date := ""
	f := newFixture(t, Default(), testclock.NewFakeClock(time.Time{}), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date)
		sendJSON(w, "{}")
	})
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		date = time.Now().Add(ahead).UTC().Format(http.TimeFormat)
		if err := f.get(t); err != nil {
			t.Fatal(err)
		}
		if got := f.account.Ahead(); (got - ahead).Abs() > time.Minute {
			t.Errorf("it is %s ahead, want %s", got, ahead)
		}
	}
	before := f.account.Ahead()
	date = "nonsense"
	if err := f.get(t); err != nil || f.account.Ahead() != before {
		t.Errorf("%v, and it is %s ahead after an answer without a time, want %s", err, f.account.Ahead(), before)
	}
}

func TestAnAccountForgetsTheListsThatNobodyReads(t *testing.T) {
	fake := testclock.NewFakeClock(time.Now())
	a := NewAccount(Default(), fake)
	for i := range 100 {
		_, ended := a.total(request{list: strings.Repeat("x", i), paged: true})
		ended()
	}
	_, stillRead := a.total(request{list: "read", paged: true})
	fake.Step(a.limits.Relist + time.Second)
	first, ended := a.total(request{list: "another", paged: true})
	if got := len(a.pages); got != 2 {
		t.Errorf("%d lists are remembered, want the one that is read, and the new one", got)
	}
	ended()
	ended()
	fake.Step(a.limits.Relist)
	next, _ := a.total(request{list: "another", paged: true, continued: true})
	if next != first {
		t.Error("the next page has another total")
	}
	stillRead()
	if p := a.pages["another"]; p.open != 1 {
		t.Errorf("%d pages are open", p.open)
	}
}
