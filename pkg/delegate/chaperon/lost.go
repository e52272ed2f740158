package chaperon

import (
	"context"
	"fmt"
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

// lostFields remembers which fields of delegates this cluster dropped: their conditions, or nil if there are none. A
// new leader finds them in the status of PodChaperons.
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

// showLost shows which fields of the delegate this cluster dropped. Nobody looks at the delegate, and its containers
// may do something else without them. If the status cannot be written, the next one shows them.
func (r *Reconciler) showLost(ctx context.Context, chaperon *v1alpha1.PodChaperon, fields []string) {
	before := fieldsCondition(&chaperon.Status)
	if len(fields) == 0 {
		if before != nil { // Of an earlier delegate, before this cluster was upgraded.
			r.lost.note(chaperon, nil)
		} else { // The status that was to show it may not have been written.
			r.lost.forget(client.ObjectKeyFromObject(chaperon))
		}
		return
	}
	r.writeLost(ctx, chaperon, lostMessage(fields), fields)
}

// showLostByChange shows which fields this cluster dropped when the delegate was changed, beside those that it lacks
// since its creation.
func (r *Reconciler) showLostByChange(ctx context.Context, chaperon *v1alpha1.PodChaperon, fields []string) {
	before := r.lost.of(chaperon)
	if before == nil {
		before = &corev1.PodCondition{}
	}
	fields = slices.DeleteFunc(fields, func(field string) bool {
		return strings.Contains(before.Message+",", " "+field+",") // The path of another field may begin like this one.
	})
	switch {
	case len(fields) == 0:
	case before.Message == "":
		r.writeLost(ctx, chaperon, lostMessage(fields), fields)
	default:
		r.writeLost(ctx, chaperon, before.Message+", "+strings.Join(fields, ", "), fields)
	}
}

// writeLost shows a message about dropped fields, unless the PodChaperon shows it already.
func (r *Reconciler) writeLost(ctx context.Context, chaperon *v1alpha1.PodChaperon, message string, fields []string) {
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
	log.FromContext(ctx).Info("This cluster dropped fields of the delegate", "fields", fields)
	if _, err := r.writeStatus(ctx, chaperon, &chaperon.Status); err != nil {
		log.FromContext(ctx).Error(err, "Showing dropped fields failed. The next status shows them")
	}
}

func lostMessage(fields []string) string {
	more := ""
	if len(fields) == translate.MaxLostFields {
		more = " and perhaps others"
	}
	return fmt.Sprintf("the target dropped fields of the delegate: its version of Kubernetes does not know them or "+
		"has them disabled, or a webhook there removed them: %s%s", strings.Join(fields, ", "), more)
}

// withLost returns the status with the condition that shows dropped fields, if there is one.
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
