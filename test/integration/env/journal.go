package env

import (
	"slices"
	"strings"
	"sync"
)

// Journal keeps what happened, in order. The zero value is empty. It is safe for concurrent use.
type Journal struct {
	mu      sync.Mutex // guards entries
	entries []string
}

// Add adds an entry.
func (j *Journal) Add(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, entry)
}

// With returns the entries that contain all of the texts.
func (j *Journal) With(texts ...string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for _, entry := range j.entries {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(entry, text) }) {
			found = append(found, entry)
		}
	}
	return found
}
