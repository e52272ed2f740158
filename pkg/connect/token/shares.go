package token

import (
	"encoding/json"
	"fmt"
	"maps"
	"sync"
)

// The shares of the Secret of renewed tokens, which has room for 1 MiB. An entry has 1 to 2 KiB, and at most 4.5 KiB.
// Tenants write Targets. What is left for ClusterTargets is enough for several hundred.
const (
	shareOfTargets   = 256 << 10
	shareOfNamespace = 32 << 10
)

// shares bounds the entries of Targets. The zero value is ready. It is safe for concurrent use.
type shares struct {
	mu sync.Mutex // guards taken
	// taken has the entries of Targets that this process wrote: what is seen of the Secret may lag behind.
	taken map[string]share
}

// share is the size of an entry, and the namespace of its Target.
type share struct {
	namespace string
	size      int64
}

// take notes that an entry will be written, or returns an error, for users to read, if it exceeds a share. data is the
// Secret's. An entry may always be replaced by one that is not larger.
func (s *shares) take(id, namespace string, size int64, data map[string][]byte) error {
	if namespace == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all(data)
	was := all[id].size
	inNamespace, inAll := size, size
	for other, held := range all {
		if other == id {
			continue
		}
		inAll += held.size
		if held.namespace == namespace {
			inNamespace += held.size
		}
	}
	switch {
	case size <= was:
	case inNamespace > shareOfNamespace:
		return fmt.Errorf("the tokens of the Targets in a namespace may have %d KiB there; delete Targets that are "+
			"not needed, or use kubeconfigs whose tokens need no renewal", shareOfNamespace>>10)
	case inAll > shareOfTargets:
		return fmt.Errorf("the tokens of all Targets may have %d KiB there; the administrators of this cluster can "+
			"limit Targets by ResourceQuotas, or connect by ClusterTargets", shareOfTargets>>10)
	}
	if s.taken == nil {
		s.taken = map[string]share{}
	}
	s.taken[id] = share{namespace, size}
	return nil
}

// give notes that entries were deleted, or perhaps not written.
func (s *shares) give(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.taken, id)
	}
}

// all returns the entries of Targets: those in the Secret, and those that were written since. It is called under mu.
func (s *shares) all(data map[string][]byte) map[string]share {
	all := map[string]share{}
	for id, raw := range data {
		var e entry
		if json.Unmarshal(raw, &e) == nil && e.namespace() != "" {
			all[id] = share{e.namespace(), int64(len(raw))}
		}
	}
	maps.Copy(all, s.taken)
	return all
}

// usage returns the bytes of the entries of ClusterTargets and of Targets.
func usage(data map[string][]byte) (clusterTargets, targets int64) {
	for _, raw := range data {
		var e entry
		if json.Unmarshal(raw, &e) == nil && e.namespace() != "" {
			targets += int64(len(raw))
		} else {
			clusterTargets += int64(len(raw))
		}
	}
	return clusterTargets, targets
}
