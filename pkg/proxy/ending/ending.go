package ending

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Asked says whether the target's manager was asked to end the delegate, whatever it does by then, and with which grace
// period. It decides as the target's manager does.
func Asked(chaperon *v1alpha1.PodChaperon) (grace string, asked bool) {
	if _, asked = translate.EndAsked(chaperon); !asked {
		return "", false
	}
	return chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod], true
}

// Begun says whether the PodChaperon is being deleted, or the target's manager was asked to do so. If the delegate was
// withdrawn, and gets a node before, this is false again.
func Begun(chaperon *v1alpha1.PodChaperon) bool {
	return translate.ToEnd(chaperon) || !chaperon.DeletionTimestamp.IsZero()
}

// Ask asks the target's manager to end the delegate of this very PodChaperon. The grace period is in seconds, or empty
// for the delegate's own. The API server answers that the UID is immutable if another PodChaperon is in its place.
func Ask(ctx context.Context, target client.Client, chaperon *v1alpha1.PodChaperon, grace string) error {
	return ask(ctx, target, chaperon, map[string]any{
		"annotations": map[string]any{v1alpha1.AnnotationDeletionGracePeriod: grace},
	})
}

// AskAsSeen asks the same, with the delegate's own grace period, unless the PodChaperon has changed. The API server
// answers with a conflict then.
func AskAsSeen(ctx context.Context, target client.Client, seen *v1alpha1.PodChaperon) error {
	return askAsSeen(ctx, target, seen, v1alpha1.AnnotationDeletionGracePeriod)
}

// Withdraw asks the same as AskAsSeen about a delegate that has no node. If it gets one before the target's manager
// ends it, it stays: Begun is false when the PodChaperon shows the node. Managers of earlier versions end it.
func Withdraw(ctx context.Context, target *engage.Target, seen *v1alpha1.PodChaperon) error {
	if !target.Spares() {
		return AskAsSeen(ctx, target.Client, seen)
	}
	return askAsSeen(ctx, target.Client, seen, v1alpha1.AnnotationWithdrawn)
}

func askAsSeen(ctx context.Context, target client.Client, seen *v1alpha1.PodChaperon, annotation string) error {
	return ask(ctx, target, seen, map[string]any{
		"resourceVersion": seen.ResourceVersion,
		"annotations":     map[string]any{annotation: ""},
	})
}

func ask(
	ctx context.Context, target client.Client, chaperon *v1alpha1.PodChaperon, metadata map[string]any,
) error {
	data, err := patch.Merge(chaperon.UID, metadata, nil)
	if err != nil {
		return fmt.Errorf("asking for the end of a delegate: %w", err)
	}
	patched := &v1alpha1.PodChaperon{}
	patched.Namespace, patched.Name = chaperon.Namespace, chaperon.Name
	request := client.RawPatch(types.MergePatchType, data)
	return target.Patch(ctx, patched, request, client.FieldOwner(v1alpha1.FieldOwner))
}
