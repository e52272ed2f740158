package chaperon

import (
	"context"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// lostFields remembers which fields delegates lack: their conditions, or nil if there are none. A new leader finds them
// in the status of PodChaperons.
type lostFields struct {
	mu    sync.Mutex // guards byKey
	byKey map[types.NamespacedName]lost
}

type lost struct {
	uid       types.UID // of the PodChaperon
	condition *corev1.PodCondition
}

func (l *lostFields) note(chaperon *v1alpha1.PodChaperon, condition *corev1.PodCondition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = map[types.NamespacedName]lost{}
	}
	l.byKey[client.ObjectKeyFromObject(chaperon)] = lost{uid: chaperon.UID, condition: condition}
}

// of returns the condition that the PodChaperon is to have, or nil.
func (l *lostFields) of(chaperon *v1alpha1.PodChaperon) *corev1.PodCondition {
	l.mu.Lock()
	defer l.mu.Unlock()
	if noted, ok := l.byKey[client.ObjectKeyFromObject(chaperon)]; ok && noted.uid == chaperon.UID {
		return noted.condition
	}
	return fieldsCondition(&chaperon.Status)
}

func (l *lostFields) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byKey, key)
}

// The beginnings of messages that name fields.
const (
	messageUnknown = "the delegate lacks fields that the target's manager does not know (upgrade the manager, and " +
		"create the pod again): "
	messageDropped = "the target dropped fields of the delegate: its version of Kubernetes does not know them or has " +
		"them disabled, or a webhook there removed them: "
)

// showLost shows which fields a new delegate lacks: those that this manager does not know, and those that this cluster
// dropped. Nobody looks at the delegate, and its containers may do something else without them. If the status cannot be
// written, the next one shows them.
func (r *Reconciler) showLost(ctx context.Context, chaperon *v1alpha1.PodChaperon, dropped []string) {
	message := withFields(withFields("", messageUnknown, chaperon.Unknown), messageDropped, dropped)
	switch {
	case message != "":
		r.writeLost(ctx, chaperon, message)
	case fieldsCondition(&chaperon.Status) != nil: // Of an earlier delegate, before this cluster was upgraded.
		r.lost.note(chaperon, nil)
	default: // The status that was to show it may not have been written.
		r.lost.forget(client.ObjectKeyFromObject(chaperon))
	}
}

// showLostByChange shows which fields the delegate lacks since it was changed, beside those that it lacks since its
// creation.
func (r *Reconciler) showLostByChange(ctx context.Context, chaperon *v1alpha1.PodChaperon, dropped []string) {
	before := r.lost.of(chaperon)
	if before == nil {
		before = &corev1.PodCondition{}
	}
	message := withFields(withFields(before.Message, messageUnknown, chaperon.Unknown), messageDropped, dropped)
	if message != before.Message {
		r.writeLost(ctx, chaperon, message)
	}
}

// withFields adds the fields that a message does not name to its part that has this beginning. The newest fields come
// first, because the end of a long message is cut off.
func withFields(message, begin string, fields []string) string {
	fields = slices.DeleteFunc(slices.Clone(fields), func(field string) bool {
		return strings.Contains(message+",", " "+field+",") // The path of another field may begin like this one.
	})
	if len(fields) == 0 {
		return message
	}
	added := begin + strings.Join(fields, ", ")
	if len(fields) == translate.MaxLostFields {
		added += ", and perhaps others"
	}
	switch {
	case message == "":
		return added
	case strings.Contains(message, begin):
		return strings.Replace(message, begin, added+", ", 1)
	default:
		return message + ", and " + added
	}
}

// writeLost shows a message about fields that the delegate lacks, unless the PodChaperon shows it already.
func (r *Reconciler) writeLost(ctx context.Context, chaperon *v1alpha1.PodChaperon, message string) {
	before := fieldsCondition(&chaperon.Status)
	condition := &corev1.PodCondition{
		Type: v1alpha1.ConditionFields, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonFieldsDropped,
		Message: truncate(message), LastTransitionTime: metav1.NewTime(r.clock.Now()).Rfc3339Copy(),
	}
	if before != nil && before.Message == condition.Message {
		return
	}
	r.lost.note(chaperon, condition)
	r.recordFieldsDropped(chaperon, condition.Message)
	log.FromContext(ctx).Info("The delegate lacks fields", "message", condition.Message)
	if _, err := r.writeStatus(ctx, chaperon, &chaperon.Status); err != nil {
		log.FromContext(ctx).Error(err, "Showing lost fields failed. The next status shows them")
	}
}

// withLost returns the status with the condition that shows lost fields, if there is one.
func (r *Reconciler) withLost(chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) *corev1.PodStatus {
	is, has := r.lost.of(chaperon), fieldsCondition(status)
	if is == has || is != nil && has != nil && *is == *has {
		return status
	}
	changed := status.DeepCopy()
	changed.Conditions = slices.DeleteFunc(changed.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.ConditionFields
	})
	if is != nil {
		changed.Conditions = append(changed.Conditions, *is)
	}
	return changed
}

func fieldsCondition(status *corev1.PodStatus) *corev1.PodCondition {
	return translate.PodCondition(status.Conditions, v1alpha1.ConditionFields)
}
