package placement

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

func TestWhatAPodNeedsDecidesWhetherItsDelegateIsMade(t *testing.T) {
	database := needs.Ref{Resource: needs.Secrets, Name: "db"}
	missing := &needs.MissingError{Namespace: "default", Refs: []needs.Ref{database}}
	for name, test := range map[string]struct {
		ensured error
		err     string
		leftOut string
		refusal Refusal
	}{
		"the object is in the target": {},
		"the object is missing in the source": {
			ensured: missing, err: `Secret "db" does not exist in namespace "default": the pod cannot start without`,
		},
		"the target does not take the object": {
			ensured: &needs.RefusedError{Ref: database, Reason: "exists there"}, err: `c1: Secret "db" exists there`,
			leftOut: `Secret "db" exists there`, refusal: Forbidden,
		},
		"a quota of the target has no room for the object": {
			ensured: &needs.RefusedError{Ref: database, Reason: "is refused", Class: apierror.QuotaExceeded},
			err:     `c1: Secret "db" is refused`, leftOut: `Secret "db" is refused`, refusal: Forbidden,
		},
		"the rights to write the object have not arrived yet": {
			ensured: &needs.RefusedError{Ref: database, Reason: "is refused", Class: apierror.RightsMissing},
			err:     `c1: Secret "db" is refused`, leftOut: `Secret "db" is refused`, refusal: RightsMissing,
		},
		"the target does not answer": {
			ensured: errors.New("slow"), err: "bringing what the pod needs to c1: slow",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.ensure = func(context.Context, *corev1.Pod, *engage.Target) error { return test.ensured }
			created := 0
			at := w.engage(t, "c1", interceptor.Funcs{
				Create: func(
					ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
				) error {
					created++
					return c.Create(ctx, o, options...)
				},
			})
			_, err := w.ensureChaperon(t.Context(), newPod("p", nil), at)
			if got := message(err); got != test.err {
				t.Errorf("error is %q, want %q", got, test.err)
			}
			if made := created > 0; made != (test.ensured == nil) {
				t.Errorf("a PodChaperon was created: %t", made)
			}
			var refused *RefusedError
			if errors.As(err, &refused) != (test.leftOut != "") || refused != nil && refused.Reason != test.leftOut {
				t.Errorf("the target refused the pod: %v, want %q", refused, test.leftOut)
			}
			if refused != nil && refused.Refusal != test.refusal {
				t.Errorf("refusal %d, want %d", refused.Refusal, test.refusal)
			}
		})
	}
}
