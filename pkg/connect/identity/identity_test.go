package identity

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestCheck(t *testing.T) {
	const ok, other, unknown = "ok", "another cluster", "unknown"
	for name, test := range map[string]struct {
		belongs string
		seen    []string
		want    []string
		id      string
	}{
		"the same cluster":                             {"c2", []string{"c2", "c2"}, []string{ok, ok}, "c2"},
		"another cluster":                              {"c2", []string{"c3"}, []string{other}, "c2"},
		"the first one counts":                         {"", []string{"c2", "c3"}, []string{ok, other}, "c2"},
		"another one ends it for ever":                 {"c2", []string{"c3", "c2"}, []string{other, other}, "c2"},
		"no ID, where none is known":                   {"", []string{""}, []string{ok}, ""},
		"the ID comes later":                           {"", []string{"", "c2", "c3"}, []string{ok, ok, other}, "c2"},
		"no ID, where one is known":                    {"c2", []string{"", "c2"}, []string{unknown, ok}, "c2"},
		"a text that cannot be an ID":                  {"c2", []string{"\x00"}, []string{unknown}, "c2"},
		"a text that is too long, where none is known": {"", []string{strings.Repeat("x", 64)}, []string{ok}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := New(test.belongs)
			var got []string
			for _, seen := range test.seen {
				switch err := i.Check(seen); {
				case err == nil:
					got = append(got, ok)
				case errors.As(err, new(*OtherClusterError)):
					got = append(got, other)
				case errors.As(err, new(*UnknownError)):
					got = append(got, unknown)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if i.ClusterID() != test.id {
				t.Errorf("it is %q, want %q", i.ClusterID(), test.id)
			}
			over := got[len(got)-1] == other
			if (i.Other() != nil) != over || isClosed(i.Ended()) != over {
				t.Errorf("other is %v, and it has ended: %t", i.Other(), isClosed(i.Ended()))
			}
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestExplain(t *testing.T) {
	i, failed := New("c2"), errors.New("refused")
	if got := i.Explain(failed); !errors.Is(got, failed) {
		t.Errorf("got %v", got)
	}
	if err := i.Check("c3"); err == nil {
		t.Fatal("c3 is not c2")
	}
	if got := i.Explain(failed); !errors.As(got, new(*OtherClusterError)) {
		t.Errorf("got %v", got)
	}
	if got := i.Explain(nil); got != nil {
		t.Errorf("there was no error: %v", got)
	}
}

func TestTheClusterIsAskedWhoItIs(t *testing.T) {
	unanswered := errors.New("slow")
	for name, test := range map[string]struct {
		belongs, publishes string
		answer             error // instead of the ID
		asked              bool
		want               func(error) bool
	}{
		"the same cluster": {
			belongs: "c2", publishes: "c2", asked: true, want: func(err error) bool { return err == nil },
		},
		"another cluster": {
			belongs: "c2", publishes: "c3", asked: true,
			want: func(err error) bool { return errors.As(err, new(*OtherClusterError)) },
		},
		"a cluster that does not tell": {
			belongs: "c2", asked: true, want: func(err error) bool { return errors.As(err, new(*UnknownError)) },
		},
		"a cluster that does not answer": {
			belongs: "c2", answer: unanswered, asked: true,
			want: func(err error) bool { return errors.Is(err, unanswered) },
		},
		"nobody knows which cluster is right": {publishes: "c3", want: func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			asked := false
			reader := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(
					_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption,
				) error {
					asked = key.Name == v1alpha1.ClusterSummaryName
					o.(*v1alpha1.ClusterSummary).Status.ClusterID = test.publishes
					return test.answer
				},
			}).Build()
			i := New(test.belongs)
			if err := i.Confirm(t.Context(), reader); !test.want(err) {
				t.Errorf("got %v", err)
			}
			if asked != test.asked {
				t.Errorf("the cluster was asked: %t, want %t", asked, test.asked)
			}
			if i.ClusterID() != test.belongs {
				t.Errorf("it is %q, want %q", i.ClusterID(), test.belongs)
			}
		})
	}
}
