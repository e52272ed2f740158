package registry

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// DefaultDir is the folder of the records of all checkouts of a machine.
const DefaultDir = "/run/multicluster-scheduler/clusters"

// Registry reads and writes the records below a folder. Its callers hold the lock of the registry.
type Registry struct {
	dir  string
	boot string
}

// Open returns the registry in dir. It makes the folder, unless it exists.
func Open(dir string) (*Registry, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of the records: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("reading the machine's boot: %w", err)
	}
	return &Registry{dir: dir, boot: strings.TrimSpace(string(boot))}, nil
}

// IDFile returns the file in which a checkout keeps the ID of its record.
func IDFile(checkout string) string {
	return filepath.Join(checkout, ".local", "clusters", "id")
}

// Lock waits until no other process holds the lock of the file at path, and takes it. The returned function, or the end
// of the process, releases the lock.
func Lock(path string) (func(), error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of a lock: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %q: %w", path, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Lock waits for the lock of the registry and takes it.
func (r *Registry) Lock() (func(), error) {
	return Lock(filepath.Join(r.dir, "lock"))
}

// Entries returns all records, by slot.
func (r *Registry) Entries() ([]*Entry, error) {
	var entries []*Entry
	for slot := range Slots {
		entry := &Entry{Plan: Plan{Slot: slot}, dir: filepath.Join(r.dir, strconv.Itoa(slot))}
		content, err := os.ReadFile(filepath.Join(entry.dir, entryFile))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading the record of slot %d: %w", slot, err)
		}
		if err := json.Unmarshal(content, entry); err != nil {
			return nil, fmt.Errorf("reading the record of slot %d: %w", slot, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// Vanished returns the records of checkouts that no longer exist, and those from an earlier boot.
func (r *Registry) Vanished() ([]*Entry, error) {
	entries, err := r.Entries()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e *Entry) bool { return !e.Vanished(r.boot) }), nil
}

// Find returns the record of a checkout, or nil if the checkout has none.
func (r *Registry) Find(checkout string) (*Entry, error) {
	entries, err := r.Entries()
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if entry.Checkout == checkout && !entry.Vanished(r.boot) {
			return entry, nil
		}
	}
	return nil, nil
}

// Claim returns the record of a checkout. If it has none, Claim makes one with the first slot whose subnet is not in
// use.
func (r *Registry) Claim(checkout string, inUse func(netip.Prefix) bool) (*Entry, error) {
	entry, err := r.Find(checkout)
	if err != nil || entry != nil {
		return entry, err
	}
	for slot := range Slots {
		plan := Plan{Slot: slot}
		dir := filepath.Join(r.dir, strconv.Itoa(slot))
		if _, err := os.Stat(filepath.Join(dir, entryFile)); err == nil || inUse(plan.Subnet()) {
			continue
		}
		entry := &Entry{
			Plan: plan, Checkout: checkout, ID: rand.Text(), Boot: r.boot, Clusters: map[string]int{}, dir: dir,
		}
		return entry, r.claim(entry)
	}
	return nil, fmt.Errorf("all %d ranges from 10.%d.0.0/16 are in use: take down the clusters of another checkout",
		Slots, firstSecondOctet)
}

// Release forgets a checkout. The caller has removed everything else of it.
func (r *Registry) Release(e *Entry) error {
	if err := os.RemoveAll(e.dir); err != nil {
		return fmt.Errorf("removing the record of %q: %w", e.Checkout, err)
	}
	return nil
}

func (r *Registry) claim(e *Entry) error {
	if err := os.MkdirAll(filepath.Dir(IDFile(e.Checkout)), 0o755); err != nil {
		return fmt.Errorf("making the folder of the clusters: %w", err)
	}
	if err := os.WriteFile(IDFile(e.Checkout), []byte(e.ID+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the ID of the checkout: %w", err)
	}
	return e.save()
}
