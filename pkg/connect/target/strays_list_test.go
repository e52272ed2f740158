package target

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

func TestWhichPodChaperonsMayBeStrays(t *testing.T) {
	longest := strings.Repeat("x", validation.DNS1123SubdomainMaxLength)
	for name, test := range map[string]struct {
		change func(*v1alpha1.PodChaperon)
		want   bool
	}{
		"one that names its proxy":   {func(*v1alpha1.PodChaperon) {}, true},
		"one with the longest name":  {func(c *v1alpha1.PodChaperon) { c.Name = longest }, true},
		"not one with a longer name": {func(c *v1alpha1.PodChaperon) { c.Name = longest + "x" }, false},
		"not one whose proxy is elsewhere": {
			func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationParentNamespace] = "team" }, false,
		},
		"not one whose proxy has no name": {
			func(c *v1alpha1.PodChaperon) { delete(c.Annotations, v1alpha1.AnnotationParentName) }, false,
		},
		"not one whose proxy has no UID": {
			func(c *v1alpha1.PodChaperon) { delete(c.Labels, v1alpha1.LabelParentUID) }, false,
		},
	} {
		chaperon := &metav1.PartialObjectMetadata{ObjectMeta: stray("former", test.change).ObjectMeta}
		if _, got := candidateOf(chaperon); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestStraysAreLookedForUntilAllHaveEnded(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	there := fakeOf(t, interceptor.Funcs{}, stray("former"))
	lists := 0
	away := interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if lists++; lists == 1 {
			return errAway
		}
		return c.List(ctx, list, options...)
	}}
	s := &strays{
		options: Options{Clock: f.clock, Client: fakeOf(t, away), APIReader: fakeOf(t, interceptor.Funcs{})},
		target:  &engage.Target{Key: keyC2, Client: there}, live: there,
	}
	s.options.Source.ClusterID = "c1"
	done := make(chan error)
	go func() { s.end(t.Context()); done <- nil }()
	_ = f.passUntil(done)
	left := &v1alpha1.PodChaperonList{}
	if err := there.List(t.Context(), left); err != nil || len(left.Items) > 0 {
		t.Errorf("%d strays stay, error %v", len(left.Items), err)
	}
}

func TestStraysOfOneNamespaceEndWhateverAnotherOneAnswers(t *testing.T) {
	there := fakeOf(t, interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if (&client.ListOptions{}).ApplyOptions(options).Namespace == "team" {
			return errAway
		}
		return c.List(ctx, list, options...)
	}}, stray("former"))
	s := straysIn(t, there, "", "shop", "team")
	found, more, err := s.list(t.Context())
	if len(found) != 1 || !more || err == nil {
		t.Errorf("%d found, more %t, error %v", len(found), more, err)
	}
	if _, err := s.endThose(t.Context()); err == nil {
		t.Error("nobody hears that a namespace was not read")
	}
}

// Each page of the namespace says that there is another one.
func TestANamespaceWithoutAnEndHasMoreStrays(t *testing.T) {
	there := fakeOf(t, interceptor.Funcs{List: func(
		_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption,
	) error {
		list.SetContinue("next")
		return nil
	}})
	s := straysIn(t, there, "")
	s.target.Copied = nil
	if found, more, err := s.list(t.Context()); len(found) > 0 || !more || err != nil {
		t.Errorf("%d found, more %t, error %v", len(found), more, err)
	}
}

func TestStraysAreLookedForWhereTheSourceGrantSays(t *testing.T) {
	grant := grantOf(func(g *v1alpha1.SourceGrant) {
		g.Status.Used, g.Status.Leaving = []string{"used"}, []string{"leaving"}
	})
	there := fakeOf(t, interceptor.Funcs{}, grant)
	for name, test := range map[string]struct {
		grant string
		all   bool // namespaces are shown
		want  []string
	}{
		"there is a SourceGrant":    {grant: grant.Name, want: []string{"leaving", "shop", "used"}},
		"there is none":             {want: []string{"shop"}},
		"it cannot be read":         {grant: "another", want: []string{"shop"}},
		"all namespaces are shown":  {grant: grant.Name, all: true, want: []string{""}},
		"all, without any of those": {all: true, want: []string{""}},
	} {
		s := straysIn(t, there, test.grant, "shop")
		if test.all {
			s.target.Copied = nil
		}
		if got := s.namespaces(t.Context()); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// straysIn returns strays of a target that may have copies in some namespaces.
func straysIn(t *testing.T, there client.Client, grant string, namespaces ...string) *strays {
	t.Helper()
	s := &strays{
		options: Options{Client: fakeOf(t, interceptor.Funcs{}), APIReader: fakeOf(t, interceptor.Funcs{})},
		target:  &engage.Target{Key: types.NamespacedName{Name: "c2"}, Client: there, Copied: engage.NewCopied(nil)},
		live:    there, grant: grant,
	}
	s.options.Source.ClusterID = "c1"
	for _, namespace := range namespaces {
		s.target.Copied.Note(namespace)
	}
	return s
}
