package claims

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// records remembers where the copies of claims are. Somebody may take the annotations off a claim without knowing: who
// replaces the object as a whole does. The zero value is ready for use.
type records struct {
	mu     sync.Mutex // guards byName
	byName map[types.NamespacedName]record
}

// record is about the one claim that has this UID.
type record struct {
	uid types.UID
	at  location
}

// note notes what a claim says about its copy. A claim that says nothing changes nothing, and one that says that its
// copy is nowhere is forgotten. A claim that is gone changes nothing: its end may be seen after the next one of its
// name.
func (r *records) note(key types.NamespacedName, original *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case original == nil:
	case original.givenUp:
		delete(r.byName, key)
	case original.followedTo.name != "":
		if r.byName == nil {
			r.byName = map[types.NamespacedName]record{}
		}
		r.byName[key] = record{original.uid, original.followedTo}
	}
}

// tidy forgets the claims that are gone.
func (r *records) tidy(gone func(key types.NamespacedName) bool) {
	r.mu.Lock()
	known := maps.Clone(r.byName)
	r.mu.Unlock()
	maps.DeleteFunc(known, func(key types.NamespacedName, _ record) bool { return !gone(key) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, was := range known {
		if r.byName[key] == was {
			delete(r.byName, key)
		}
	}
}

// recall returns the claim with what is remembered of its copy, if the claim itself says nothing.
func (r *records) recall(key types.NamespacedName, original *claim) *claim {
	if original == nil || original.givenUp || original.followedTo.name != "" {
		return original
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.byName[key]
	if !ok || known.uid != original.uid {
		return original
	}
	recalled := *original
	recalled.followedTo = known.at
	return &recalled
}
