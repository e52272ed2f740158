package feedback

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestWhatWasAskedIsRememberedAsLongAsItMatters(t *testing.T) {
	const first, second = types.UID("1"), types.UID("2") // pods of one name
	one, other := chaperon(), chaperon(ofAnother)
	other.UID = "c2"
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	r := asks{}
	r.remember(key, ask{chaperon: "c1", parent: first, grace: "5"})
	r.remember(key, ask{chaperon: "c1", parent: first, grace: "3"})
	r.remember(key, ask{chaperon: "c2", parent: second})
	before := chaperon()
	before.UID = "c0" // The proxy was not bound, and may get another PodChaperon.
	r.remember(key, askFor(ending{chaperon: &before, withdrawn: true}, time.Unix(2000, 0)))
	for _, step := range []struct {
		state state
		want  []types.UID
	}{
		{state{chaperons: []v1alpha1.PodChaperon{one, other}}, []types.UID{"c1", "c2"}},
		// c1 was the proxy's own.
		{state{proxy: proxy(), chaperons: []v1alpha1.PodChaperon{other}}, []types.UID{"c1", "c2"}},
		{state{chaperons: []v1alpha1.PodChaperon{other}}, []types.UID{"c2"}},
		{state{}, nil},
	} {
		var got []types.UID
		for _, a := range r.forProxy(key, step.state) {
			got = append(got, a.chaperon)
		}
		slices.Sort(got)
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("what was asked (-want +got):\n%s", diff)
		}
	}
	if len(r.byProxy) != 0 {
		t.Errorf("%d proxies are remembered", len(r.byProxy))
	}
}
