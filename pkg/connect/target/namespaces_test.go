package target

import (
	"fmt"
	"slices"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTheNamespacesOfAGrantAreBounded(t *testing.T) {
	grant := &v1alpha1.SourceGrant{}
	grant.Status.Used, grant.Status.Leaving = []string{"shop", "../secrets", "A", ""}, []string{"left"}
	if got := namedBy(grant); !slices.Equal(got, []string{"shop", "left"}) {
		t.Errorf("namespaces are %q", got)
	}
	for n := range 100_000 {
		grant.Status.Used = append(grant.Status.Used, fmt.Sprintf("n-%d", n))
	}
	if got := len(namedBy(grant)); got != maxOfGrant {
		t.Errorf("%d namespaces are watched, want %d", got, maxOfGrant)
	}
}
