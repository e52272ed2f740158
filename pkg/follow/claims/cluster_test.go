package claims

import (
	"strconv"
	"testing"
)

func TestATargetCannotShowCopiesInNamespacesWithoutEnd(t *testing.T) {
	c := &cluster{claims: map[string]*watched{"asked": {}}}
	for n := range maxFound {
		if !c.mayWatch("next") {
			t.Fatalf("no more than %d namespaces are watched, want %d", n, maxFound)
		}
		w := &watched{}
		w.found.Store(true)
		c.claims[strconv.Itoa(n)] = w
	}
	if c.mayWatch("next") || !c.mayWatch("0") || !c.mayWatch("asked") {
		t.Error("the bound does not hold, or holds for namespaces that are watched")
	}
}
