package target

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Addresses knows the addresses that the source uses itself. It is safe for concurrent use.
type Addresses interface {
	// Wait waits until all of them are known, or ctx ends. The error says what is not known.
	Wait(ctx context.Context) error
	// Check returns a *wire.AddressError for one of them.
	Check(address netip.Addr) error
}

// limitsOf returns the limits of a Target. A ClusterTarget has none.
func (o *Options) limitsOf(key types.NamespacedName) *configv1alpha1.Tenants {
	if key.Namespace == "" {
		return nil
	}
	return &o.Tenants
}

// warnings returns the condition Restricted of a Target that has something which the next version takes away, or had.
func (r *Reconciler) warnings(
	target client.Object, spec v1alpha1.ClusterTargetSpec, w want, found finding,
) []metav1.Condition {
	limits := r.options.limitsOf(client.ObjectKeyFromObject(target))
	if limits == nil || found.condition.Type == "" {
		return nil
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionRestricted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRestricted,
		Message: "this Target is within the limits of the chart's tenants",
	}
	losses := lossesOf(limits, spec, w, found)
	switch {
	case len(losses) > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonWouldRefuse
		condition.Message = "the next release limits this Target: it " + strings.Join(losses, "; it ")
	case meta.FindStatusCondition(targetkind.Status(target).Conditions, condition.Type) == nil:
		return nil
	}
	return []metav1.Condition{condition}
}

// lossesOf says what the next version takes away from a Target, and what to do.
func lossesOf(limits *configv1alpha1.Tenants, spec v1alpha1.ClusterTargetSpec, w want, found finding) []string {
	if limits.Enforce {
		return nil
	}
	var losses []string
	if w.warning != "" {
		losses = append(losses, "refuses its kubeconfig, because "+w.warning)
	}
	if found.warned != (wire.AddressError{}) {
		losses = append(losses, fmt.Sprintf("does not connect it, because %s; use an address that the target alone "+
			"has, or ask the administrators to set the chart's %s", &found.warned, found.warned.Value))
	}
	if labels := withoutExcluded(found.labels, spec.ExcludedLabelsRegexp); len(labels) > 0 {
		losses = append(losses, fmt.Sprintf("does not give its virtual node the labels %s; ask the administrators to "+
			"add the keys that you need to the chart's tenants.nodeLabels, or exclude the labels by "+
			"spec.excludedLabelsRegexp", someOf(labels)))
	}
	if !w.self && len(limits.AllowedPodCIDRs) == 0 {
		losses = append(losses, "does not show addresses of its pods; ask the administrators to add their ranges to "+
			"the chart's tenants.allowedPodCIDRs")
	}
	return losses
}

// withoutExcluded returns the keys of labels, given as lines, that the regular expression does not match.
func withoutExcluded(lines, excluded string) []string {
	expression, err := translate.CompileExpression(excluded)
	var keys []string
	for line := range strings.Lines(lines) {
		line = strings.TrimSuffix(line, "\n")
		if excluded == "" || err != nil || !expression.MatchString(line) {
			key, _, _ := strings.Cut(line, "=")
			keys = append(keys, key)
		}
	}
	return keys
}

// someOf names the first ones of a list.
func someOf(names []string) string {
	const some = 3
	if len(names) <= some {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
}

// lostLabels returns the labels that the virtual node of a Target loses when the limits are enforced, as lines.
func (l *loop) lostLabels() string {
	if l.key.Namespace == "" || l.options.Tenants.Enforce || l.engaged == nil {
		return ""
	}
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(l.engaged.labels)) {
		if translate.IsNodeLabel(key) && !l.options.Tenants.AllowsLabel(key) {
			lines.WriteString(key + "=" + l.engaged.labels[key] + "\n")
		}
	}
	return lines.String()
}

// recordWarnings records an event for each new warning.
func (r *Reconciler) recordWarnings(target client.Object, was v1alpha1.TargetStatus, warnings []metav1.Condition) {
	for _, warning := range warnings {
		before := meta.FindStatusCondition(was.Conditions, warning.Type)
		if warning.Status == metav1.ConditionFalse && (before == nil || before.Message != warning.Message) {
			r.options.Recorder.Eventf(
				target, nil, corev1.EventTypeWarning, warning.Reason, "Connect", "%s", warning.Message,
			)
		}
	}
}
