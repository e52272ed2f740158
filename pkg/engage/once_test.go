package engage

import (
	"errors"
	"testing"
)

func TestOnceTriesUntilItSucceeds(t *testing.T) {
	passing := errors.New("no leader")
	answers := []error{passing, nil, errors.New("done twice")}
	calls := 0
	once := Once(func() error {
		calls++
		return answers[calls-1]
	})
	for i, want := range []error{passing, nil, nil} {
		if got := once(); !errors.Is(got, want) {
			t.Errorf("call %d: got %v, want %v", i, got, want)
		}
	}
	if calls != 2 {
		t.Errorf("it was done %d times", calls)
	}
}
