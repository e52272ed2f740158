package objects

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// recorder writes down what a watch tells.
type recorder struct {
	changes, troubles []string
}

func (r *recorder) watch(resource needs.Resource) *watch {
	changed := func(o object, appeared bool) { r.changes = append(r.changes, fmt.Sprintf("%s %t", o.Name, appeared)) }
	return newWatch(
		collection{"shop", resource},
		changed,
		func(err error) { r.troubles = append(r.troubles, err.Error()) },
	)
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
	if _, exists := w.get("a"); exists {
		t.Error("what was deleted while the watch was broken is still known")
	}
}

func TestServiceAccountsAreFollowedWhereTheirOwnersSaySo(t *testing.T) {
	r := &recorder{}
	w := r.watch(needs.ServiceAccounts)
	must(t, w.Replace([]any{meta("plain", "1"), meta("asked", "2", v1alpha1.AnnotationFollow)}, ""))
	plain, _ := w.get("plain")
	asked, _ := w.get("asked")
	if plain.followed || !asked.followed {
		t.Errorf("followed: plain %t, asked %t", plain.followed, asked.followed)
	}
}

func TestWaitingForAWatchEndsWithItsFirstFailure(t *testing.T) {
	r := &recorder{}
	w := r.watch(needs.Secrets)
	w.fail(apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no")))
	err := w.wait(t.Context())
	if !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), `get, list and watch secrets in namespace "shop"`) {
		t.Errorf("the error does not say which right is missing: %v", err)
	}
	w.fail(errors.New("again"))
	if len(r.troubles) != 1 {
		t.Errorf("every failure is told of: %v", r.troubles)
	}
	must(t, w.Replace(nil, ""))
	must(t, w.wait(t.Context()))
	w.fail(errors.New("later"))
	must(t, w.wait(t.Context())) // What it knows will do.
	if len(r.troubles) != 2 {
		t.Errorf("a failure after it worked is not told of: %v", r.troubles)
	}
}

func TestOnlyWhatIsKnownNotToExistIsMissing(t *testing.T) {
	r := &recorder{}
	known, unknown := r.watch(needs.Secrets), r.watch(needs.ConfigMaps)
	must(t, known.Replace([]any{meta("there", "1")}, ""))
	w := r.watch(needs.Secrets)
	must(t, w.Replace(nil, ""))
	w.fail(errors.New("forbidden since"))
	if w.lacks("new") {
		t.Error("a watch that fails says what does not exist")
	}
	must(t, w.Replace(nil, ""))
	if !w.lacks("new") {
		t.Error("a watch that works again does not say what does not exist")
	}
	s := &watches{all: map[collection]*watch{known.collection: known, unknown.collection: unknown}}
	need := func(resource needs.Resource, name string, optional bool) needs.Need {
		return needs.Need{Ref: needs.Ref{Resource: resource, Name: name}, Optional: optional}
	}
	for name, test := range map[string]struct {
		followed []needs.Need
		want     string
	}{
		"what is there is not":                  {followed: []needs.Need{need(needs.Secrets, "there", false)}},
		"what is optional is not":               {followed: []needs.Need{need(needs.Secrets, "gone", true)}},
		"what has not been listed yet is not":   {followed: []needs.Need{need(needs.ConfigMaps, "gone", false)}},
		"an account is not: it is the target's": {followed: []needs.Need{need(needs.ServiceAccounts, "gone", false)}},
		"the rest is, all of it": {
			followed: []needs.Need{need(needs.Secrets, "gone", false), need(needs.Secrets, "lost", false), need(needs.Secrets, "there", false)},
			want:     `Secret "gone", Secret "lost" do not exist in namespace "shop": the pod cannot start without`,
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

// BenchmarkNamespaceOfConfigMaps tells what a watch keeps of each of 10,000 ConfigMaps.
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
		w := (&recorder{}).watch(needs.ConfigMaps)
		w.changed = func(object, bool) {}
		before := heap()
		for i := range list {
			list[i] = meta(fmt.Sprintf("settings-of-application-%05d", i), fmt.Sprint(1_000_000+i))
		}
		b.StartTimer()
		must := w.Replace(list, "")
		b.StopTimer()
		if must != nil {
			b.Fatal(must)
		}
		clear(list)
		kept = heap() - before
		runtime.KeepAlive(w)
		b.StartTimer()
	}
	b.ReportMetric(kept/count, "B/object")
}
