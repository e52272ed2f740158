package services

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// mapper gives its answers one after the other.
type mapper struct {
	meta.RESTMapper

	answers []error
}

func (m *mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	err := m.answers[0]
	m.answers = m.answers[1:]
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Resource: "serviceexports"}}, err
}

func TestTheKindServiceExportIsAskedForUntilThereIsAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		want   bool
	}{
		"the kind exists":         {want: true},
		"the kind does not exist": {answer: &meta.NoKindMatchError{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &mapper{answers: []error{errors.New("unavailable"), test.answer}}
				f := &Follower{options: Options{Mapper: m, Logger: logr.Discard()}, originals: &originals{}}
				if err := f.findExports(t.Context()); err != nil || len(m.answers) > 0 {
					t.Errorf("%d answers are left, error %v", len(m.answers), err)
				}
				if got := f.originals.exports != nil; got != test.want {
					t.Errorf("ServiceExports: got %t, want %t", got, test.want)
				}
			})
		})
	}
}

func TestAnEndIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &Follower{
		options:   Options{Mapper: &mapper{answers: []error{errors.New("unavailable"), nil}}, Logger: logr.Discard()},
		originals: &originals{},
	}
	if err := f.Start(ctx); err != nil {
		t.Errorf("Start: %v", err)
	}
}

func TestErrorsThatOnlyAPersonCanCorrectHaveAMessage(t *testing.T) {
	resource := schema.GroupResource{Resource: "services"}
	for name, test := range map[string]struct {
		err            error
		want           string
		lacksNamespace bool
	}{
		"no error":             {},
		"an error that passes": {err: apierrors.NewServiceUnavailable("busy")},
		"an object that is not ours": {
			err: fmt.Errorf("writing: %w", &writer.NotOursError{Kind: "Service"}),
			want: "there is a Service of that name, which does not come from this cluster; delete it there, or " +
				"rename one of the two",
		},
		"a Secret that is refused": {
			err: fmt.Errorf("ensuring: %w", &needs.RefusedError{
				Ref:    needs.Ref{Resource: needs.Secrets, Name: "tls"},
				Reason: "exists there",
			}),
			want: `the TLS Secret "tls" exists there`,
		},
		"another object that was not found": {
			err: apierrors.NewNotFound(resource, "web"), want: `services "web" not found`,
		},
		"a namespace that does not exist": {
			err:            errors.Join(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")),
			want:           `namespaces "shop" not found`,
			lacksNamespace: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refusal(test.err); got != test.want {
				t.Errorf("refusal: got %q, want %q", got, test.want)
			}
			if got := lacksNamespace(test.err); got != test.lacksNamespace {
				t.Errorf("lacks namespace: %t", got)
			}
		})
	}
}
