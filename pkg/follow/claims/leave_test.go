package claims

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// knowing makes a cluster whose namespaces were asked about at these times, and are known.
func knowing(asked map[string]time.Time, known map[string]map[string]claim) *cluster {
	c := &cluster{clock: clock.RealClock{}, claims: map[string]*watched{}}
	for namespace, at := range asked {
		stop := func() {}
		w := &watched{stop: stop}
		w.known = known[namespace]
		w.asked.Store(&at)
		c.claims[namespace] = w
	}
	return c
}

func TestClaimsAreWatchedWhereTheyMatter(t *testing.T) {
	old, recent := noon().Add(-time.Hour), noon()
	source := knowing(
		map[string]time.Time{"asked": recent, "copies": old, "found": old, "idle": old, "unlike": old},
		nil,
	)
	c2 := knowing(
		map[string]time.Time{"asked": recent, "copies": old, "found": old, "gone": old, "idle": old, "unlike": old},
		map[string]map[string]claim{
			"copies": {"data": {origin: ours}},
			"gone":   {},
			"unlike": {"data": {origin: others}, "log": {origin: anotherSource}},
		},
	)
	c2.claims["found"].found.Store(true) // and it could not be listed since
	c2.claims["gone"].found.Store(true)
	c3 := knowing(map[string]time.Time{"idle": old}, nil)
	c := &Claims{source: source, targets: map[types.NamespacedName]*cluster{{Name: "c2"}: c2, {Name: "c3"}: c3}}
	c.leave(noon().Add(-time.Minute))
	for name, test := range map[string]struct {
		*cluster
		want []string
	}{
		"the target's, where pods ask or there are copies": {c2, []string{"asked", "copies", "found"}},
		"another target's, of which there are none":        {c3, nil},
		"the source's, where there are a target's":         {source, []string{"asked", "copies", "found"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(test.namespaces()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
