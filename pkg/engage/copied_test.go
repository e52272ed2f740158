package engage

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// copiedBy returns what a source learns from a SourceGrant that names namespaces.
func copiedBy(t *testing.T, namespaces ...string) *Copied {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(nil, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{})
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "source"}}
	grant.Status.Copied = namespaces
	if err := informer.GetStore().Add(grant); err != nil {
		t.Fatal(err)
	}
	return NewCopied(informer)
}

func TestTheNamespacesWithCopiesAreBounded(t *testing.T) {
	if got := copiedBy(t, "shop", "../secrets", "A", "", "left").Named(); !got.Equal(sets.New("shop", "left")) {
		t.Errorf("namespaces are %q", got)
	}
	var many []string
	for n := range 100_000 {
		many = append(many, fmt.Sprintf("n-%d", n))
	}
	if got := copiedBy(t, many...).Named().Len(); got != maxCopied {
		t.Errorf("%d namespaces are searched, want %d", got, maxCopied)
	}
}

func TestASourceGrantIsReadOnce(t *testing.T) {
	c := copiedBy(t, "shop")
	c.Named()
	c.named = sets.New("as read before")
	if got := c.Named(); !got.Equal(sets.New("as read before")) {
		t.Errorf("the SourceGrant was read again: %q", got)
	}
}

func TestWhereCopiesAreRead(t *testing.T) {
	byNamespace := copiedBy(t, "left", "used")
	byNamespace.Note("used")
	byNamespace.Note("new")
	for name, test := range map[string]struct {
		target *Target
		reads  string
		may    []string
	}{
		"a source that may read the whole cluster": {target: &Target{}, may: []string{""}},
		"a Target": {
			target: &Target{Key: types.NamespacedName{Namespace: "team", Name: "c2"}}, reads: "team",
			may: []string{"team"},
		},
		"a source that reads by namespace": {
			target: &Target{Copied: byNamespace}, reads: "shop", may: []string{"left", "new", "used"},
		},
		"no SourceGrant": {target: &Target{Copied: NewCopied(nil)}, reads: "shop"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.target.ReadsIn("shop"); got != test.reads {
				t.Errorf("reads are limited to %q, want %q", got, test.reads)
			}
			if got := test.target.MayHaveCopies(); !slices.Equal(got, test.may) {
				t.Errorf("copies may be in %q, want %q", got, test.may)
			}
		})
	}
}

func TestATargetThatChangesItsGrantWithoutEndIsReadNowAndThen(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	informer := toolscache.NewSharedIndexInformer(source, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{})
	clock := clocktesting.NewFakeClock(time.Now())
	c := NewCopied(informer)
	c.clock = clock
	go informer.RunWithContext(t.Context())
	name := func(namespace string) {
		grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "source"}}
		grant.Status.Copied = []string{namespace}
		source.Modify(grant)
	}
	seen := make(chan sets.Set[string])
	if err := c.OnChange(t.Context(), func() { seen <- c.Named() }); err != nil {
		t.Fatal(err)
	}
	name("first")
	if got := waittest.Receive(t, "the first change", seen); !got.Equal(sets.New("first")) {
		t.Errorf("namespaces are %q", got)
	}
	for n := range 1000 {
		name(fmt.Sprintf("n-%d", n))
	}
	waittest.Eventually(t, "the last change is known", func() bool { return c.Named().Has("n-999") })
	waittest.Eventually(t, "there is a pause", clock.HasWaiters)
	select {
	case got := <-seen:
		t.Errorf("%q was told before the pause was over", got)
	default:
	}
	clock.Step(changeInterval)
	if got := waittest.Receive(t, "the last change", seen); !got.Equal(sets.New("n-999")) {
		t.Errorf("namespaces are %q", got)
	}
}
