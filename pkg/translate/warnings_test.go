package translate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestReasonsOfWarningsAreValidInTypesOfConditions(t *testing.T) {
	for reason, want := range map[string]string{
		"FailedMount":             "FailedMount",
		"":                        "",
		"image pull / back-off":   "imagepullback-off",
		"--":                      "",
		"\x00\u202eEvicted\n":     "Evicted",
		strings.Repeat("a", 1000): strings.Repeat("a", 63),
		strings.Repeat("é", 1000): "",
	} {
		got := WarningReason(reason)
		if got != want || WarningReason(got) != got {
			t.Errorf("%.20q becomes %q, and then %q; want %q", reason, got, WarningReason(got), want)
		}
		if errs := validation.IsQualifiedName(v1alpha1.WarningPrefix + got); got != "" && len(errs) > 0 {
			t.Errorf("%q is refused: %v", got, errs)
		}
	}
}

func TestMessagesOfWarningsAreBounded(t *testing.T) {
	for message, want := range map[string]string{
		"no such image":                      "no such image",
		"two\nlines\tand \u202eothers\x1b":   "two lines and others",
		strings.Repeat("x", 1<<20):           strings.Repeat("x", 509) + "…",
		strings.Repeat("é", 300) + "\n tail": strings.Repeat("é", 254) + "…",
		"not \xff UTF-8":                     "not  UTF-8",
	} {
		got := WarningMessage(message)
		if got != want || len(got) > maxWarning || WarningMessage(got) != got {
			t.Errorf("%.20q becomes %d bytes, %q", message, len(got), got)
		}
	}
}

func TestWarningsOfATargetAreBounded(t *testing.T) {
	now := time.Unix(1000, 500)
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	conditions := []corev1.PodCondition{ready}
	add := func(conditionType, reason, message string) {
		conditions = append(conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(conditionType), Reason: reason, Message: message, ObservedGeneration: 7,
			LastProbeTime: Warning("x", "", now).LastTransitionTime,
		})
		conditions[len(conditions)-1].LastTransitionTime.Time = now
	}
	add(v1alpha1.WarningPrefix+"Other", "FailedMount", "another reason than the type says")
	add(v1alpha1.WarningPrefix, "", "no reason")
	add(v1alpha1.WarningPrefix+"a b", "a b", "no valid type")
	for i := range 10_000 {
		reason := fmt.Sprintf("Reason%d", i/2)
		add(v1alpha1.WarningPrefix+reason, reason, strings.Repeat("m", 2000))
	}
	warnings, others := Warnings(conditions)
	if diff := cmp.Diff([]corev1.PodCondition{ready}, others); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
	var want []corev1.PodCondition
	for i := range MaxWarnings {
		want = append(want, Warning(fmt.Sprintf("Reason%d", i), strings.Repeat("m", 2000), now))
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestTheNewestWarningsAreTheSameInAnyOrder(t *testing.T) {
	var all []corev1.PodCondition
	for i := range 60 { // Ten reasons; the last ones of each happened in the same second.
		at := time.Unix(int64(min(i, 50)), 0)
		all = append(all, Warning(fmt.Sprintf("Reason%d", i%10), fmt.Sprintf("message %d", i), at))
	}
	want := NewestWarnings(all...)
	if len(want) != MaxWarnings || want[0].Type != v1alpha1.WarningPrefix+"Reason5" || want[0].Message != "message 55" {
		t.Fatalf("got %v", want)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var one []corev1.PodCondition
		for _, c := range all {
			one = NewestWarnings(append(one, c)...)
		}
		if diff := cmp.Diff(want, one); diff != "" {
			t.Fatalf("one by one (-want +got):\n%s", diff)
		}
	}
}

func TestWarningsNeverReachTheStatusOfAProxy(t *testing.T) {
	warning := Warning("FailedMount", "no such volume", time.Unix(1000, 0))
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse}
	proxy := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	delegate := corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{ready, warning}}
	for range 2 {
		got := ProxyStatus(proxy, delegate)
		if diff := cmp.Diff([]corev1.PodCondition{ready}, got.Conditions); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
		// A source of an earlier version copied it. Meanwhile, the PodChaperon shows newer ones in its place.
		proxy.Status.Conditions = append(proxy.Status.Conditions, warning)
		delegate.Conditions = []corev1.PodCondition{ready}
	}
}
