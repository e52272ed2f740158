package translate

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// MaxWarnings is how many warnings a PodChaperon shows.
	MaxWarnings = 5
	// maxWarningReason is the longest name in the type of a condition, and maxWarning bounds the bytes of a message.
	maxWarningReason, maxWarning = 63, 512

	// WarningFailedCreate is the reason of the warning that the target's manager tries to create the delegate, and that
	// the API server fails.
	WarningFailedCreate = "FailedCreate"
)

// IsWarning says whether a condition of this type shows a warning about a delegate.
func IsWarning(conditionType corev1.PodConditionType) bool {
	return strings.HasPrefix(string(conditionType), v1alpha1.WarningPrefix)
}

// WarningReason returns the reason of an event as it is in a condition. API servers accept it at the end of a
// condition's type. It is empty if nothing is left of the reason.
func WarningReason(reason string) string {
	reason = reason[:min(len(reason), 4*maxWarningReason)]
	reason = strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)) {
			return r
		}
		return -1
	}, reason)
	return strings.Trim(reason[:min(len(reason), maxWarningReason)], "-_.")
}

// WarningMessage returns the first bytes of a message, on one line and without characters that are not printed.
func WarningMessage(message string) string {
	message = message[:min(len(message), 4*maxWarning)]
	message = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, message))
	if len(message) <= maxWarning {
		return message
	}
	const mark = "…"
	return strings.ToValidUTF8(message[:maxWarning-len(mark)], "") + mark
}

// Warning returns the condition of a PodChaperon that shows a warning. The reason comes from WarningReason, and is not
// empty.
func Warning(reason, message string, at time.Time) corev1.PodCondition {
	return corev1.PodCondition{
		Type:               v1alpha1.WarningPrefix + corev1.PodConditionType(reason),
		Status:             corev1.ConditionTrue,
		Reason:             reason,
		Message:            WarningMessage(message),
		LastTransitionTime: metav1.NewTime(at.UTC().Truncate(time.Second)),
	}
}

// Warnings returns the valid warnings among the conditions that a target reports, bounded as Warning makes them, and at
// most MaxWarnings. It returns the other conditions, too: the given ones if there are no warnings.
func Warnings(conditions []corev1.PodCondition) (warnings, others []corev1.PodCondition) {
	if !slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool { return IsWarning(c.Type) }) {
		return nil, conditions
	}
	for i := range conditions {
		c := &conditions[i]
		switch {
		case !IsWarning(c.Type):
			others = append(others, *c)
		case len(warnings) < MaxWarnings && c.Reason != "" && WarningReason(c.Reason) == c.Reason &&
			c.Type == v1alpha1.WarningPrefix+corev1.PodConditionType(c.Reason) &&
			PodCondition(warnings, c.Type) == nil:
			warnings = append(warnings, Warning(c.Reason, c.Message, c.LastTransitionTime.Time))
		}
	}
	return warnings, others
}

// NewestWarnings returns the newest warning of each type, the types in alphabetical order, and at most MaxWarnings. The
// result is the same in whichever order and however often warnings are given.
func NewestWarnings(warnings ...corev1.PodCondition) []corev1.PodCondition {
	var newest []corev1.PodCondition
	for _, c := range warnings {
		if last := PodCondition(newest, c.Type); last == nil {
			newest = append(newest, c)
		} else if warningAge(c, *last) < 0 {
			*last = c
		}
	}
	slices.SortFunc(newest, func(a, b corev1.PodCondition) int {
		return cmp.Or(warningAge(a, b), cmp.Compare(a.Type, b.Type))
	})
	newest = newest[:min(len(newest), MaxWarnings)]
	slices.SortFunc(newest, func(a, b corev1.PodCondition) int { return cmp.Compare(a.Type, b.Type) })
	return newest
}

// warningAge is negative if a is newer than b. Of two warnings of the same second, one counts as newer by its text.
func warningAge(a, b corev1.PodCondition) int {
	return cmp.Or(b.LastTransitionTime.Compare(a.LastTransitionTime.Time), cmp.Compare(b.Message, a.Message))
}
