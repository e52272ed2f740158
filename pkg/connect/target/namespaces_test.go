package target

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

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

func TestATargetThatNamesOtherNamespacesEachTimeIsBounded(t *testing.T) {
	named, all := sets.New[string](), map[string]bool{}
	ask := func(first, count int) int {
		grant := &v1alpha1.SourceGrant{}
		for n := range count {
			grant.Status.Used = append(grant.Status.Used, fmt.Sprintf("n-%d", first+n))
		}
		added := alsoNamed(named, grant, func(namespace string) bool { return all[namespace] })
		for _, namespace := range added {
			all[namespace] = true
		}
		return len(added)
	}
	for _, step := range []struct{ first, count, want int }{
		{0, maxOfGrant - 10, maxOfGrant - 10},
		{maxOfGrant, 100, 10},
		{2 * maxOfGrant, 100, 0},
		{0, 5, 5}, // It is watched.
	} {
		if got := ask(step.first, step.count); got != step.want {
			t.Errorf("%d namespaces from %d: %d are watched, want %d", step.count, step.first, got, step.want)
		}
	}
	delete(all, "n-7") // It is forgotten.
	if got := ask(2*maxOfGrant, 2); got != 1 {
		t.Errorf("%d namespaces are watched in place of one that is forgotten", got)
	}
}
