package registry

import (
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func nothingInUse(netip.Prefix) bool { return false }

func open(t *testing.T) *Registry {
	t.Helper()
	r, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func claim(t *testing.T, r *Registry, checkout string, inUse func(netip.Prefix) bool) *Entry {
	t.Helper()
	entry, err := r.Claim(checkout, inUse)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func TestCheckoutsGetSlotsOfTheirOwnAndKeepThem(t *testing.T) {
	r := open(t)
	one, two := t.TempDir(), t.TempDir()
	first := claim(t, r, one, nothingInUse)
	second := claim(t, r, two, nothingInUse)
	if first.Slot == second.Slot {
		t.Fatalf("both checkouts have slot %d", first.Slot)
	}
	if again := claim(t, r, one, nothingInUse); again.Slot != first.Slot || again.ID != first.ID {
		t.Errorf("the first checkout was given slot %d, and then slot %d", first.Slot, again.Slot)
	}
}

func TestSlotWhoseRangeIsInUseIsPassedOver(t *testing.T) {
	r := open(t)
	entry := claim(t, r, t.TempDir(), func(p netip.Prefix) bool { return p == (Plan{Slot: 0}).Subnet() })
	if entry.Slot != 1 {
		t.Errorf("slot %d, want 1", entry.Slot)
	}
}

func TestReleasedSlotIsGivenAgain(t *testing.T) {
	r := open(t)
	entry := claim(t, r, t.TempDir(), nothingInUse)
	if err := r.Release(entry); err != nil {
		t.Fatal(err)
	}
	if again := claim(t, r, t.TempDir(), nothingInUse); again.Slot != entry.Slot {
		t.Errorf("slot %d, want %d", again.Slot, entry.Slot)
	}
}

func TestClustersGetTheIndexOfTheirNameOrTheFirstFree(t *testing.T) {
	r := open(t)
	checkout := t.TempDir()
	entry := claim(t, r, checkout, nothingInUse)
	for _, name := range []string{"edge", "c3", "c1", "cloud", "c99", "c3"} {
		if err := entry.Add(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := entry.Remove("cloud"); err != nil {
		t.Fatal(err)
	}
	stored, err := r.Find(checkout)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"edge": 1, "c3": 3, "c1": 2, "c99": 5}
	if diff := cmp.Diff(want, stored.Clusters); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
}

func TestThereIsAnEndToClusters(t *testing.T) {
	entry := claim(t, open(t), t.TempDir(), nothingInUse)
	for i := range MaxClusters {
		if err := entry.Add(string(rune('d' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := entry.Add("z"); err == nil {
		t.Error("one cluster too many was accepted")
	}
}

func TestVanished(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, checkout string, r *Registry)
		want   int
	}{
		"a checkout that is as it was": {
			change: func(*testing.T, string, *Registry) {},
		},
		"a checkout that is gone": {
			change: func(t *testing.T, checkout string, _ *Registry) {
				t.Helper()
				if err := os.RemoveAll(checkout); err != nil {
					t.Fatal(err)
				}
			},
			want: 1,
		},
		"another checkout at the same path": {
			change: func(t *testing.T, checkout string, _ *Registry) {
				t.Helper()
				if err := os.WriteFile(IDFile(checkout), []byte("another"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: 1,
		},
		"a checkout after a reboot": {
			change: func(_ *testing.T, _ string, r *Registry) { r.boot = "another" },
			want:   1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := open(t)
			checkout := t.TempDir()
			claim(t, r, checkout, nothingInUse)
			c.change(t, checkout, r)
			vanished, err := r.Vanished()
			if err != nil {
				t.Fatal(err)
			}
			if len(vanished) != c.want {
				t.Errorf("%d vanished, want %d", len(vanished), c.want)
			}
			found, err := r.Find(checkout)
			if err != nil {
				t.Fatal(err)
			}
			if (found == nil) != (c.want == 1) {
				t.Errorf("found %v although %d vanished", found, c.want)
			}
		})
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	r := open(t)
	unlock, err := r.Lock()
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan func())
	go func() {
		second, err := r.Lock()
		if err != nil {
			t.Error(err)
		}
		locked <- second
	}()
	select {
	case <-locked:
		t.Fatal("the lock was taken twice")
	default:
	}
	unlock()
	(<-locked)()
}
