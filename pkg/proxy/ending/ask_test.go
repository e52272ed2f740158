package ending

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

func TestARequestToEndADelegateNamesTheChaperonThatWasSeen(t *testing.T) {
	seen := &v1alpha1.PodChaperon{}
	seen.UID, seen.ResourceVersion = "u1", "7"
	annotation := map[string]any{v1alpha1.AnnotationDeletionGracePeriod: "30"}
	withdrawn := map[string]any{v1alpha1.AnnotationWithdrawn: ""}
	own := map[string]any{v1alpha1.AnnotationDeletionGracePeriod: ""}
	withdraw := func(known bool) func(client.Client) error {
		return func(c client.Client) error {
			target := &engage.Target{Client: c}
			target.SetSpares(known)
			return Withdraw(t.Context(), target, seen)
		}
	}
	for name, test := range map[string]struct {
		ask      func(client.Client) error
		metadata map[string]any
	}{
		"any state of it": {
			func(c client.Client) error { return Ask(t.Context(), c, seen, "30") },
			map[string]any{"uid": "u1", "annotations": annotation},
		},
		"only as seen": {
			withdraw(true), map[string]any{"uid": "u1", "resourceVersion": "7", "annotations": withdrawn},
		},
		"only as seen, of a manager that does not know more": {
			withdraw(false), map[string]any{"uid": "u1", "resourceVersion": "7", "annotations": own},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var sent map[string]any
			refusal := errors.New("refused")
			target := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Patch: func(
				_ context.Context, _ client.WithWatch, o client.Object, p client.Patch, _ ...client.PatchOption,
			) error {
				data, err := p.Data(o)
				if err != nil {
					return err
				}
				if err := json.Unmarshal(data, &sent); err != nil {
					return err
				}
				return refusal
			}}).Build()
			if err := test.ask(target); !errors.Is(err, refusal) {
				t.Errorf("error %v", err)
			}
			if want := map[string]any{"metadata": test.metadata}; !reflect.DeepEqual(sent, want) {
				t.Errorf("sent %v, want %v", sent, want)
			}
		})
	}
}
