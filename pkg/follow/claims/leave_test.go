package claims

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// knowing makes a cluster. For each namespace, asked has the time of the last question, and known the listed claims.
func knowing(t *testing.T, asked map[string]time.Time, known map[string]map[string]claim) *cluster {
	t.Helper()
	c := &cluster{clock: clock.RealClock{}, claims: map[string]*watched{}}
	for namespace, at := range asked {
		w := &watched{
			stop: func() {},
			claimStore: watch.NewStore(watch.StoreOptions[*corev1.PersistentVolumeClaim, claim]{
				EntryOf: func(pvc *corev1.PersistentVolumeClaim) claim { return known[namespace][pvc.Name] },
			}),
		}
		if claims, listed := known[namespace]; listed {
			var list []any
			for name := range claims {
				list = append(list, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			if err := w.Replace(list, ""); err != nil {
				t.Fatal(err)
			}
		}
		w.asked.Store(&at)
		c.claims[namespace] = w
	}
	return c
}

func TestClaimsAreWatchedWhereTheyMatter(t *testing.T) {
	old, recent := noon().Add(-time.Hour), noon()
	source := knowing(
		t,
		map[string]time.Time{"asked": recent, "copies": old, "found": old, "idle": old, "unlike": old},
		nil,
	)
	c2 := knowing(
		t,
		map[string]time.Time{"asked": recent, "copies": old, "found": old, "gone": old, "idle": old, "unlike": old},
		map[string]map[string]claim{
			"copies": {"data": {origin: ours}},
			"gone":   {},
			"unlike": {"data": {origin: others}, "log": {origin: anotherSource}},
		},
	)
	c2.claims["found"].found.Store(true) // and it could not be listed since
	c2.claims["gone"].found.Store(true)
	c3 := knowing(t, map[string]time.Time{"idle": old}, nil)
	c := &Claims{source: source}
	c.targets.Set(t.Context(), &engage.Target{NodeName: "c2"}, c2)
	c.targets.Set(t.Context(), &engage.Target{NodeName: "c3"}, c3)
	c.stopUnasked(noon().Add(-time.Minute))
	for name, test := range map[string]struct {
		*cluster
		want []string
	}{
		"the target's claims, where pods ask or copies exist": {c2, []string{"asked", "copies", "found"}},
		"no claims of a target that no pod asks about now":    {c3, nil},
		"the source's claims, where a target's are watched":   {source, []string{"asked", "copies", "found"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(test.namespaces()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
