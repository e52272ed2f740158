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
)

func TestARequestToEndADelegateNamesTheChaperonThatWasSeen(t *testing.T) {
	seen := &v1alpha1.PodChaperon{}
	seen.UID, seen.ResourceVersion = "u1", "7"
	annotation := map[string]any{v1alpha1.AnnotationDeletionGracePeriod: "30"}
	own := map[string]any{v1alpha1.AnnotationDeletionGracePeriod: ""}
	for name, test := range map[string]struct {
		ask      func(client.Client) error
		metadata map[string]any
	}{
		"any state of it": {
			func(c client.Client) error { return Ask(t.Context(), c, seen, "30") },
			map[string]any{"uid": "u1", "annotations": annotation},
		},
		"only as seen": {
			func(c client.Client) error { return AskAsSeen(t.Context(), c, seen) },
			map[string]any{"uid": "u1", "resourceVersion": "7", "annotations": own},
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
