package token

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const fieldOwner = v1alpha1.FieldOwner + "-tokens"

// statusOf returns what the status says about a credential, or nil if it does not expire.
func statusOf(c credential, problem string) *v1alpha1.TargetCredentials {
	if c.expires.IsZero() {
		return nil
	}
	status := &v1alpha1.TargetCredentials{Expires: metav1.NewTime(c.expires.Truncate(time.Second)), Problem: problem}
	if !c.renewed.IsZero() {
		status.Renewed = &metav1.Time{Time: c.renewed.Truncate(time.Second)}
	}
	return status
}

// writeStatus writes when the credential expires into the target's status, unless the status says so.
func (l *login) writeStatus(ctx context.Context, c credential) error {
	target := targetkind.New(l.target)
	if err := l.renewer.options.Client.Get(ctx, l.target, target); err != nil {
		return client.IgnoreNotFound(err)
	}
	wanted := statusOf(c, l.problem())
	if equality.Semantic.DeepEqual(targetkind.Status(target).Credentials, wanted) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": target.GetUID()}, "status": map[string]any{"credentials": full(wanted)},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	err = l.renewer.options.Client.Status().Patch(
		ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(fieldOwner))
	return client.IgnoreNotFound(err)
}

// full returns all fields for a merge patch, so that it removes those that are empty.
func full(c *v1alpha1.TargetCredentials) any {
	if c == nil {
		return nil
	}
	fields := map[string]any{"expires": c.Expires, "renewed": c.Renewed, "problem": nil}
	if c.Problem != "" {
		fields["problem"] = c.Problem
	}
	return fields
}

// warn records the event that a credential is about to expire.
func (l *login) warn(ctx context.Context, c credential) error {
	target := targetkind.New(l.target)
	if err := l.renewer.options.Client.Get(ctx, l.target, target); err != nil {
		return client.IgnoreNotFound(err)
	}
	kind, what := "certificate", "write a kubeconfig with a new one into the target's Secret"
	if c.token != "" {
		kind = "token"
		what = "write a new one into the target's Secret: " + targetkind.ConnectCommand(l.target, "--renew")
	}
	note := fmt.Sprintf("the %s for the target expires at %s; %s", kind, c.expires.UTC().Format(time.RFC3339), what)
	if problem := l.problem(); problem != "" {
		note += " (it is not renewed: " + problem + ")"
	}
	l.renewer.options.Recorder.Eventf(
		target, nil, corev1.EventTypeWarning, v1alpha1.ReasonCredentialsExpire, "Renew", "%s", note)
	return nil
}
