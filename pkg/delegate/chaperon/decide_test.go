package chaperon

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}
	lost := func(reason, message string, ago time.Duration) corev1.PodCondition {
		return corev1.PodCondition{
			Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		}
	}
	gone := func(ago time.Duration) corev1.PodCondition {
		return lost(v1alpha1.ReasonDelegateGone, messageGone, ago)
	}
	terminating := func(ago time.Duration) corev1.PodCondition {
		return lost(v1alpha1.ReasonDelegateTerminating, messageTerminating, ago)
	}
	status := func(phase corev1.PodPhase, conditions ...corev1.PodCondition) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, Conditions: conditions}
	}
	refused := status(corev1.PodPending, lost(v1alpha1.ReasonDelegateRefused, messageNotOurs, 0))

	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		pod      *corev1.Pod
		want     decision
	}{
		"a new PodChaperon gets a delegate": {chaperon(corev1.PodStatus{}), nil, decision{create: true}},
		"a PodChaperon that cannot be read gets no delegate": {
			chaperon(corev1.PodStatus{}, unreadable), nil, decision{status: ptr.To(status(corev1.PodPending,
				lost(v1alpha1.ReasonDelegateRefused, messageUnreadable+"spec: no)", 0)))},
		},
		"the delegate of a PodChaperon that cannot be read any more is reported": {
			chaperon(corev1.PodStatus{}, unreadable), delegate(status(corev1.PodRunning)),
			decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"a deleted PodChaperon gets no delegate": {chaperon(corev1.PodStatus{}, deleted), nil, decision{}},
		"a delegate without conditions yet is not reported": {
			chaperon(corev1.PodStatus{}), delegate(status(corev1.PodPending)), decision{},
		},
		"a scheduled delegate is reported": {
			chaperon(corev1.PodStatus{}), delegate(status(corev1.PodPending, scheduled)),
			decision{status: ptr.To(status(corev1.PodPending, scheduled))},
		},
		"a delegate that was made again replaces the old one's status at once": {
			chaperon(status(corev1.PodRunning, gone(time.Hour))), delegate(status(corev1.PodPending)),
			decision{status: ptr.To(status(corev1.PodPending))},
		},
		"a delegate that is deleted by others is lost": {
			chaperon(status(corev1.PodRunning)), delegate(status(corev1.PodRunning), terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning, terminating(0)))},
		},
		"a lost delegate that ends stays lost since the same time": {
			chaperon(status(corev1.PodRunning, terminating(time.Minute))),
			delegate(status(corev1.PodFailed), terminatingPod),
			decision{status: ptr.To(status(corev1.PodFailed, terminating(time.Minute)))},
		},
		"a delegate that ends because its PodChaperon is deleted is not lost": {
			chaperon(status(corev1.PodRunning), deleted), delegate(status(corev1.PodRunning), terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"a delegate ends if its deleted PodChaperon is held by a finalizer": {
			chaperon(status(corev1.PodRunning), deleted, finalizer("example.org/hold")),
			delegate(status(corev1.PodRunning)),
			decision{status: ptr.To(status(corev1.PodRunning)), deleteDelegate: true},
		},
		"a delegate whose deletion has begun is not deleted again": {
			chaperon(status(corev1.PodRunning), deleted, finalizer("example.org/hold")),
			delegate(status(corev1.PodRunning), terminatingPod), decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"the garbage collector deletes the delegate itself": {
			chaperon(status(corev1.PodRunning), deleted), delegate(status(corev1.PodRunning)),
			decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"a delegate that shall be orphaned stays": {
			chaperon(status(corev1.PodRunning), deleted, finalizer(metav1.FinalizerOrphanDependents)),
			delegate(status(corev1.PodRunning)), decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"a finished delegate that is cleaned up is not lost": {
			chaperon(status(corev1.PodSucceeded)), delegate(status(corev1.PodSucceeded), terminatingPod),
			decision{status: ptr.To(status(corev1.PodSucceeded))},
		},
		"a finished delegate that is gone is not made again": {chaperon(status(corev1.PodFailed)), nil, decision{}},
		"a running delegate that is gone is lost": {
			chaperon(status(corev1.PodRunning, scheduled)), nil,
			decision{status: ptr.To(status(corev1.PodRunning, scheduled, gone(0)))},
		},
		"a scheduled delegate that is gone is lost": {
			chaperon(status(corev1.PodPending, scheduled)), nil,
			decision{status: ptr.To(status(corev1.PodPending, scheduled, gone(0)))},
		},
		"a terminating delegate that is gone is reported as gone since now": {
			chaperon(status(corev1.PodFailed, terminating(time.Hour))), nil,
			decision{status: ptr.To(status(corev1.PodFailed, gone(0)))},
		},
		"a delegate that was made again and vanished unseen is made again": {
			chaperon(status(corev1.PodPending)), nil, decision{create: true},
		},
		"a source has two minutes to react to a loss": {
			chaperon(status(corev1.PodRunning, gone(30*time.Second))), nil, decision{wait: 90 * time.Second},
		},
		"after two minutes the delegate is made again": {
			chaperon(status(corev1.PodRunning, gone(2*time.Minute))), nil, decision{create: true},
		},
		"after two minutes a delegate that its deletion ended is made again": {
			chaperon(status(corev1.PodFailed, gone(2*time.Minute))), nil, decision{create: true},
		},
		"a delegate that restarts on failure only is not made again": {
			chaperon(status(corev1.PodRunning, gone(time.Hour)), onFailure), nil, decision{},
		},
		"another's pod with the delegate's name is a refusal": {
			chaperon(corev1.PodStatus{}), delegate(corev1.PodStatus{}, notOurs), decision{status: &refused},
		},
		"another's pod with the delegate's name is reported once": {
			chaperon(refused), delegate(corev1.PodStatus{}, notOurs), decision{},
		},
		"a refused delegate is not tried again": {chaperon(refused), nil, decision{}},
		"another's pod in the place of a lost delegate does not hide the loss": {
			chaperon(status(corev1.PodRunning)), delegate(corev1.PodStatus{}, notOurs),
			decision{status: ptr.To(status(corev1.PodRunning, gone(0)))},
		},
		"another's pod in the place of a lost delegate is waited for": {
			chaperon(status(corev1.PodRunning, gone(time.Hour))), delegate(corev1.PodStatus{}, notOurs),
			decision{wait: remakeAfter},
		},
		"the delegate of an older PodChaperon of that name is waited for": {
			chaperon(corev1.PodStatus{}), delegate(corev1.PodStatus{}, ofOlder), decision{},
		},
		"a grace period by annotation deletes the delegate": {
			chaperon(corev1.PodStatus{}, grace("5")), delegate(status(corev1.PodRunning)),
			decision{status: ptr.To(status(corev1.PodRunning)), deleteDelegate: true, grace: ptr.To[int64](5)},
		},
		"an empty grace period by annotation means the delegate's own": {
			chaperon(corev1.PodStatus{}, grace("")), delegate(status(corev1.PodRunning)),
			decision{status: ptr.To(status(corev1.PodRunning)), deleteDelegate: true},
		},
		"an empty grace period by annotation shortens none": {
			chaperon(corev1.PodStatus{}, grace("")), delegate(status(corev1.PodRunning), terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"an empty grace period by annotation shortens a longer one": {
			chaperon(corev1.PodStatus{}, grace("")), delegate(status(corev1.PodRunning), terminatingPod,
				func(pod *corev1.Pod) { pod.DeletionGracePeriodSeconds = ptr.To[int64](600) }),
			decision{status: ptr.To(status(corev1.PodRunning)), deleteDelegate: true, grace: ptr.To[int64](30)},
		},
		"a grace period by annotation shortens a longer one": {
			chaperon(corev1.PodStatus{}, grace("0"), deleted), delegate(status(corev1.PodRunning), terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning)), deleteDelegate: true, grace: ptr.To[int64](0)},
		},
		"a grace period by annotation is asked for once": {
			chaperon(corev1.PodStatus{}, grace("30")), delegate(status(corev1.PodRunning), terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"a grace period by annotation does not lengthen a shorter one": {
			chaperon(corev1.PodStatus{}, grace("60")), delegate(status(corev1.PodRunning), terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning))},
		},
		"a PodChaperon that is to end is deleted after its delegate": {
			chaperon(status(corev1.PodRunning), grace("5")), nil, decision{deleteChaperon: true},
		},
		"a PodChaperon that is being deleted is not deleted twice": {
			chaperon(status(corev1.PodRunning), grace("5"), deleted), nil, decision{},
		},
		"a PodChaperon that is to end leaves another's pod alone": {
			chaperon(corev1.PodStatus{}, grace("5")), delegate(corev1.PodStatus{}, notOurs),
			decision{deleteChaperon: true},
		},
		"a withdrawn delegate without a node is deleted as it was seen": {
			chaperon(corev1.PodStatus{}, withdrawn), delegate(corev1.PodStatus{Phase: corev1.PodPending}),
			decision{deleteDelegate: true, asSeen: true},
		},
		"a withdrawn delegate that has a node stays, and shows it": {
			chaperon(corev1.PodStatus{}, withdrawn), delegate(status(corev1.PodPending, scheduled), onNode),
			decision{status: ptr.To(status(corev1.PodPending, scheduled))},
		},
		"a withdrawn delegate that has a node and does not say so stays": {
			chaperon(corev1.PodStatus{}, withdrawn), delegate(corev1.PodStatus{Phase: corev1.PodPending}, onNode),
			decision{},
		},
		"a withdrawn delegate that had finished by itself stays": {
			chaperon(corev1.PodStatus{}, withdrawn), delegate(status(corev1.PodSucceeded)),
			decision{status: ptr.To(status(corev1.PodSucceeded))},
		},
		"a withdrawn delegate that somebody deletes on its node shows that": {
			chaperon(corev1.PodStatus{}, withdrawn),
			delegate(status(corev1.PodRunning, scheduled), onNode, terminatingPod),
			decision{status: ptr.To(status(corev1.PodRunning, scheduled, terminating(0)))},
		},
		"a withdrawn PodChaperon whose delegate is gone from its node shows that first": {
			chaperon(status(corev1.PodRunning, scheduled), withdrawn), nil,
			decision{status: ptr.To(status(corev1.PodRunning, scheduled, gone(0)))},
		},
		"a withdrawn PodChaperon without a delegate is deleted": {
			chaperon(corev1.PodStatus{}, withdrawn), nil, decision{deleteChaperon: true, asSeen: true},
		},
		"a withdrawn PodChaperon whose delegate was deleted on its node is deleted": {
			chaperon(status(corev1.PodRunning, scheduled, gone(0)), withdrawn), nil,
			decision{deleteChaperon: true, asSeen: true},
		},
		"a withdrawn PodChaperon leaves another's pod alone": {
			chaperon(corev1.PodStatus{}, withdrawn), delegate(status(corev1.PodRunning), onNode, notOurs),
			decision{deleteChaperon: true, asSeen: true},
		},
		"a withdrawn delegate on a node ends if its end is asked for, too": {
			chaperon(status(corev1.PodRunning, scheduled), withdrawn, grace("5")),
			delegate(status(corev1.PodRunning, scheduled), onNode),
			decision{
				deleteDelegate: true, grace: ptr.To[int64](5), status: ptr.To(status(corev1.PodRunning, scheduled)),
			},
		},
		"a grace period that is not a number is ignored": {
			chaperon(corev1.PodStatus{}, grace("soon")), nil, decision{create: true},
		},
		"a negative grace period is ignored": {chaperon(corev1.PodStatus{}, grace("-1")), nil, decision{create: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(test.chaperon, test.pod, false, now)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	got := truncate(strings.Repeat("é", maxMessage))
	if len(got) > maxMessage || !utf8.ValidString(got) || !strings.HasSuffix(got, "é…") {
		t.Errorf("a message of %d bytes that ends in %q", len(got), got[len(got)-10:])
	}
	if longest := strings.Repeat("m", maxMessage); truncate(longest) != longest {
		t.Error("a message that is just short enough is cut")
	}
}

func chaperon(status corev1.PodStatus, changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	c := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-abcde", UID: "chaperon"},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways},
		Status:     status,
	}
	for _, change := range changes {
		change(c)
	}
	return c
}

func delegate(status corev1.PodStatus, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := translate.Delegate(chaperon(corev1.PodStatus{}))
	pod.UID, pod.Status = "delegate", status
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func unreadable(c *v1alpha1.PodChaperon) { c.Spec, c.Unreadable = corev1.PodSpec{}, "spec: no" }

func deleted(c *v1alpha1.PodChaperon) {
	c.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	c.Finalizers = []string{metav1.FinalizerDeleteDependents}
}

// finalizer replaces the finalizers.
func finalizer(name string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Finalizers = []string{name} }
}

func onFailure(c *v1alpha1.PodChaperon) { c.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }

func grace(value string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationDeletionGracePeriod, value)
	}
}

// withdrawn is a PodChaperon whose delegate is to end only if it has no node.
func withdrawn(c *v1alpha1.PodChaperon) {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationWithdrawn, "")
}

func onNode(p *corev1.Pod) { p.Spec.NodeName = "node" }

func terminatingPod(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(0, 0)}, ptr.To[int64](30)
}

func notOurs(p *corev1.Pod) { p.OwnerReferences = nil }

func ofOlder(p *corev1.Pod) { p.OwnerReferences[0].UID = "older" }

func TestWhichChangesADelegateShows(t *testing.T) {
	revised := func(o metav1.Object, number int64) {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationRevision: translate.Revision{Number: number}.String()})
	}
	refused := corev1.PodCondition{
		Type: v1alpha1.ConditionChanges, Status: corev1.ConditionFalse, Message: "why", ObservedGeneration: 2,
	}
	applied := corev1.PodCondition{
		Type: v1alpha1.ConditionChanges, Status: corev1.ConditionTrue, Message: "earlier", ObservedGeneration: 1,
	}
	for name, test := range map[string]struct {
		wished, has          int64
		generation, observed int64
		said                 *corev1.PodCondition
		want                 corev1.ConditionStatus
		kept                 bool
	}{
		"nothing was changed":              {},
		"the delegate has the change":      {wished: 2, has: 2, want: corev1.ConditionTrue},
		"its kubelet saw it":               {wished: 2, has: 2, generation: 3, observed: 3, want: corev1.ConditionTrue},
		"its kubelet has not seen it":      {wished: 2, has: 2, generation: 3, observed: 2},
		"it lacks the change":              {wished: 2, has: 1},
		"the change was refused":           {wished: 2, has: 1, said: &refused, want: corev1.ConditionFalse},
		"an earlier change was refused":    {wished: 3, has: 1, said: &refused},
		"the change was refused until now": {wished: 2, has: 2, said: &refused, want: corev1.ConditionTrue},
		"the source has an older state":    {wished: 0, has: 2},
		"an earlier change was applied": {
			wished: 2, has: 1, said: &applied, want: corev1.ConditionTrue, kept: true,
		},
		"an earlier change was applied, and the kubelet has not seen this one": {
			wished: 2, has: 2, generation: 3, observed: 2, said: &applied, want: corev1.ConditionTrue, kept: true,
		},
		"an earlier change was applied, and this one": {
			wished: 2, has: 2, generation: 3, observed: 3, said: &applied, want: corev1.ConditionTrue,
		},
		"an earlier change was applied, and the source has an older state": {wished: 0, has: 2, said: &applied},
		"the delegate was made again without the change":                   {wished: 1, has: 0, said: &applied},
	} {
		t.Run(name, func(t *testing.T) {
			c, pod := &v1alpha1.PodChaperon{}, &corev1.Pod{}
			revised(c, test.wished)
			revised(pod, test.has)
			pod.Generation, pod.Status.ObservedGeneration = test.generation, test.observed
			if test.said != nil {
				c.Status.Conditions = []corev1.PodCondition{*test.said}
			}
			status := pod.Status.DeepCopy()
			showChanges(c, pod, status, time.Unix(1000, 0))
			var got corev1.ConditionStatus
			said := changesCondition(status)
			if said != nil {
				got = said.Status
			}
			if kept := said != nil && *said == applied; kept != test.kept {
				t.Errorf("condition %v, kept: %t, want %t", said, kept, test.kept)
			}
			if got != test.want {
				t.Errorf("condition %q, want %q", got, test.want)
			}
		})
	}
}

func TestARefusedChangeIsTriedAgainAtGrowingIntervals(t *testing.T) {
	c, now := &v1alpha1.PodChaperon{}, time.Unix(1000, 0)
	c.Name, c.Annotations = "web", map[string]string{v1alpha1.AnnotationRevision: "1-f"}
	r := &retries{}
	if wait := r.wait(c, now); wait != 0 {
		t.Errorf("the first try waits for %s", wait)
	}
	for _, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
		if got := r.later(c, now); got != want || r.wait(c, now) != want || r.wait(c, now.Add(want)) != 0 {
			t.Errorf("tried again after %s, want %s", got, want)
		}
	}
	for range 10 {
		r.later(c, now)
	}
	if wait := r.wait(c, now); wait != lastChangeRetry {
		t.Errorf("waits for %s, want %s", wait, lastChangeRetry)
	}
	next := c.DeepCopy()
	next.UID = "next"
	if wait := r.wait(next, now); wait != 0 {
		t.Errorf("the same change of the next PodChaperon of this name waits for %s", wait)
	}
	if got := r.later(next, now); got != firstChangeRetry {
		t.Errorf("the next PodChaperon is tried again after %s", got)
	}
	r.later(c, now)
	c.Annotations[v1alpha1.AnnotationRevision] = "2-f"
	if wait := r.wait(c, now); wait != 0 {
		t.Errorf("another change waits for %s", wait)
	}
}
