package claims

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestSerialLetsOneInAtATime(t *testing.T) {
	var s serial[string]
	var group sync.WaitGroup
	inside := 0 // guarded by the key; the race detector sees where it is not
	for range 50 {
		group.Go(func() {
			release, err := s.enter(t.Context(), "data")
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if inside++; inside != 1 {
				t.Errorf("%d are in", inside)
			}
			inside--
		})
	}
	group.Wait()
	if len(s.busy) != 0 {
		t.Errorf("%d keys are busy", len(s.busy))
	}
}

func TestSerialBlocksOneKeyOnlyAndNoLongerThanTheContext(t *testing.T) {
	var s serial[string]
	release, err := s.enter(t.Context(), "data")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	other, err := s.enter(t.Context(), "log")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.enter(ctx, "data"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
