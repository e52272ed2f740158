package wire

import (
	"net/http"
	"strings"
	"testing"
	"time"

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
		"by objects": {func(a *Account) { a.Keep(20_000, 0); a.Keep(1_001, 0) }, "21000 objects"},
		"by bytes":   {func(a *Account) { a.Keep(1, 128<<20); a.Keep(1, 1) }, "128 MiB"},
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
