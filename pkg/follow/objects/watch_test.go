package objects

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

func meta(name, version string, annotations ...string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: version},
	}
	for _, key := range annotations {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, "")
	}
	return m
}

// recorder writes down the changes that a watch reports.
type recorder struct {
	changes []string
}

func (r *recorder) watch(resource needs.Resource) *collectionWatch {
	changed := func(o objectKey, appeared bool) {
		r.changes = append(r.changes, fmt.Sprintf("%s %t", o.Name, appeared))
	}
	return newCollectionWatch(collection{"shop", resource}, changed, nil)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatchReportsNewVersionsAndObjects(t *testing.T) {
	r := &recorder{}
	w := r.watch(needs.ConfigMaps)
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{
			"what is there at first does not appear",
			func() error { return w.Replace([]any{meta("a", "1"), meta("b", "2")}, "") },
			[]string{"a false", "b false"},
		},
		{"an update", func() error { return w.Update(meta("a", "3")) }, []string{"a false"}},
		{"the same again", func() error { return w.Update(meta("a", "3")) }, nil},
		{"a new one appears", func() error { return w.Add(meta("c", "4")) }, []string{"c true"}},
		{"a deletion is no news", func() error { return w.Delete(meta("b", "5")) }, nil},
		{"it appears again", func() error { return w.Add(meta("b", "6")) }, []string{"b true"}},
		{
			"what changed while the watch was broken",
			func() error { return w.Replace([]any{meta("b", "6"), meta("c", "7"), meta("d", "8")}, "") },
			[]string{"c false", "d true"},
		},
	}
	for _, step := range steps {
		r.changes = nil
		must(t, step.do())
		slices.Sort(r.changes)
		if diff := cmp.Diff(step.want, r.changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if w.Entry("a") != nil {
		t.Error("what was deleted while the watch was broken is still known")
	}
}

func TestServiceAccountsAreFollowedWhereTheirOwnersSaySo(t *testing.T) {
	r := &recorder{}
	w := r.watch(needs.ServiceAccounts)
	must(t, w.Replace([]any{meta("plain", "1"), meta("asked", "2", v1alpha1.AnnotationFollow)}, ""))
	plain, asked := w.Entry("plain"), w.Entry("asked")
	if plain.followed || !asked.followed {
		t.Errorf("followed: plain %t, asked %t", plain.followed, asked.followed)
	}
}

func TestOnlyWhatIsKnownNotToExistIsMissing(t *testing.T) {
	r := &recorder{}
	known, unknown := r.watch(needs.Secrets), r.watch(needs.ConfigMaps)
	must(t, known.Replace([]any{meta("there", "1")}, ""))
	s := &watches{all: map[collection]*collectionWatch{known.collection: known, unknown.collection: unknown}}
	need := func(resource needs.Resource, name string, optional bool) needs.Need {
		return needs.Need{Ref: needs.Ref{Resource: resource, Name: name}, Optional: optional}
	}
	for name, test := range map[string]struct {
		followed []needs.Need
		want     string
	}{
		"an object that exists is not missing": {
			followed: []needs.Need{need(needs.Secrets, "there", false)},
		},
		"an optional object is not missing": {
			followed: []needs.Need{need(needs.Secrets, "gone", true)},
		},
		"an object of a kind not listed yet is not missing": {
			followed: []needs.Need{need(needs.ConfigMaps, "gone", false)},
		},
		"a ServiceAccount is not missing: it is the target's": {
			followed: []needs.Need{need(needs.ServiceAccounts, "gone", false)},
		},
		"all other objects are missing": {
			followed: []needs.Need{
				need(needs.Secrets, "gone", false),
				need(needs.Secrets, "lost", false),
				need(needs.Secrets, "there", false),
			},
			want: `Secret "gone", Secret "lost" do not exist in namespace "shop": the pod cannot start without`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := missing("shop", test.followed, s.lacks); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// BenchmarkNamespaceOfConfigMaps measures the memory that a watch keeps for each of 10,000 ConfigMaps.
func BenchmarkNamespaceOfConfigMaps(b *testing.B) {
	const count = 10_000
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	var kept float64
	for b.Loop() {
		b.StopTimer()
		list := make([]any, count)
		w := newCollectionWatch(collection{"shop", needs.ConfigMaps}, func(objectKey, bool) {}, nil)
		before := heap()
		for i := range list {
			list[i] = meta(fmt.Sprintf("settings-of-application-%05d", i), fmt.Sprint(1_000_000+i))
		}
		b.StartTimer()
		err := w.Replace(list, "")
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		clear(list)
		kept = heap() - before
		runtime.KeepAlive(w)
		b.StartTimer()
	}
	b.ReportMetric(kept/count, "B/object")
}
