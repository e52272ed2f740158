package feedback

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const node = "admiralty-c2"

// proxy is a proxy bound to node, Running, that nobody deletes.
func restarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

func proxy(options ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "1",
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](30),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// chaperon is the PodChaperon of proxy, Running.
func chaperon(options ...func(*v1alpha1.PodChaperon)) v1alpha1.PodChaperon {
	c := v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      translate.DelegateName(proxy()),
			UID:       "c1",
			Labels:    map[string]string{v1alpha1.LabelParentUID: "1"},
			Annotations: map[string]string{
				v1alpha1.AnnotationParentNamespace: "default",
				v1alpha1.AnnotationParentName:      "web",
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, option := range options {
		option(&c)
	}
	return c
}

func terminating(grace int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
		pod.DeletionGracePeriodSeconds = &grace
	}
}

func boundTo(nodeName string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = nodeName }
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

func held(pod *corev1.Pod) { pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"} }

func deleted(c *v1alpha1.PodChaperon) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)} }

func ofAnother(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelParentUID] = "2" }

// toEnd is a PodChaperon whose end was asked for, with a grace period.
func toEnd(grace string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationDeletionGracePeriod] = grace }
}

// withdrawn makes the chaperon one that placement withdrew. Its delegate has this phase.
func withdrawn(phase corev1.PodPhase) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Annotations[v1alpha1.AnnotationWithdrawn], c.Status = "", corev1.PodStatus{Phase: phase}
	}
}

func showing(phase corev1.PodPhase) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Status.Phase = phase }
}

func without(reason, message string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Status.Conditions = append(c.Status.Conditions, corev1.PodCondition{
			Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: reason, Message: message,
		})
	}
}

// last returns the PodChaperon of the proxy as it was when it went.
func last(phase corev1.PodPhase) *v1alpha1.PodChaperon {
	c := chaperon(showing(phase))
	return &c
}

// asked is what the target's manager was asked so long ago about the proxy's PodChaperon.
func asked(grace string, ago time.Duration) []ask {
	return []ask{{chaperon: "c1", parent: "1", grace: grace, at: time.Unix(2000, 0).Add(-ago)}}
}

// askedToWithdraw is a withdrawal that the target's manager has not carried out in time.
func askedToWithdraw(spares bool) []ask {
	return []ask{{chaperon: "c1", spares: spares, at: time.Unix(2000, 0).Add(-managerPatience)}}
}

func TestDecide(t *testing.T) {
	type chaperons = []v1alpha1.PodChaperon
	type endings = []string
	now := ptr.To[int64](0)
	// want is a plan with endings as describe has them and statuses by their phase.
	type want struct {
		Endings endings
		Phase   corev1.PodPhase
		Removal *removal
		Wait    time.Duration
	}
	ends := func(ending string) want { return want{Endings: endings{ending}, Wait: managerPatience} }
	tests := map[string]struct {
		proxy     *corev1.Pod
		chaperons chaperons
		asked     []ask
		last      *v1alpha1.PodChaperon
		spares    bool
		want      want
	}{
		"neither a proxy nor a chaperon":                  {},
		"a proxy in step with its delegate is left alone": {proxy: proxy(), chaperons: chaperons{chaperon()}},
		"a change of the delegate is shown": {
			proxy: proxy(phase(corev1.PodPending)), chaperons: chaperons{chaperon()},
			want: want{Phase: corev1.PodRunning},
		},
		"success of the delegate is shown": {
			proxy: proxy(), chaperons: chaperons{chaperon(showing(corev1.PodSucceeded))},
			want: want{Phase: corev1.PodSucceeded},
		},
		"a finished proxy never runs again, and neither does its delegate": {
			proxy: proxy(phase(corev1.PodSucceeded)), chaperons: chaperons{chaperon()},
			want: ends("c1"),
		},
		"a finished proxy outlives its delegate, which is not made again": {
			proxy:     proxy(phase(corev1.PodFailed)),
			chaperons: chaperons{chaperon(showing(corev1.PodFailed), without(v1alpha1.ReasonDelegateGone, ""))},
			want:      ends("c1"),
		},
		"a finished proxy keeps a delegate that finished": {
			proxy: proxy(phase(corev1.PodFailed)), chaperons: chaperons{chaperon(showing(corev1.PodFailed))},
		},
		"a finished proxy outlives its chaperon": {
			proxy: proxy(phase(corev1.PodSucceeded)),
		},
		"a delegate that finished and was deleted before we saw it is shown as finished": {
			proxy:     proxy(restarts(corev1.RestartPolicyNever)),
			chaperons: chaperons{chaperon(showing(corev1.PodSucceeded), without(v1alpha1.ReasonDelegateGone, ""))},
			want:      want{Phase: corev1.PodSucceeded},
		},
		"an unbound proxy is the scheduler's": {
			proxy: proxy(boundTo(""), phase(corev1.PodPending)), chaperons: chaperons{chaperon()},
		},
		"an unbound proxy that is deleted takes its chaperon along": {
			proxy: proxy(boundTo(""), held, terminating(0)), chaperons: chaperons{chaperon()},
			want: ends("c1"),
		},
		"a chaperon without a proxy is an orphan": {
			chaperons: chaperons{chaperon()}, want: ends("c1, if an orphan"),
		},
		"an orphan that is being deleted already is left alone": {
			chaperons: chaperons{chaperon(deleted)},
		},
		"a chaperon of an earlier pod of that name is an orphan, and the proxy is not shown its status": {
			proxy: proxy(boundTo(""), phase(corev1.PodPending)), chaperons: chaperons{chaperon(ofAnother)},
			want: ends("c1, if an orphan"),
		},
		"a proxy bound elsewhere has no chaperon here": {
			proxy: proxy(boundTo("admiralty-c3")), chaperons: chaperons{chaperon()},
			want: ends("c1"),
		},
		"a proxy bound elsewhere that is being deleted is left alone": {
			proxy: proxy(boundTo("admiralty-c3"), terminating(30)),
		},
		"a deleted delegate deletes the proxy with its own grace": {
			proxy: proxy(), chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateTerminating, ""))},
			want: want{Removal: &removal{of: "c1", message: "the delegate pod is being deleted in the target cluster"}},
		},
		"a delegate that is gone deletes the proxy, which waits for the PodChaperon: it could be made again": {
			proxy: proxy(), chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateGone, ""))},
			want: want{Removal: &removal{of: "c1", message: "the delegate pod was deleted in the target cluster"}},
		},
		"a delegate that ended because somebody deleted it is not shown as finished: it could be made again": {
			proxy: proxy(),
			chaperons: chaperons{
				chaperon(showing(corev1.PodFailed), without(v1alpha1.ReasonDelegateTerminating, "")),
			},
			want: want{Removal: &removal{of: "c1", message: "the delegate pod is being deleted in the target cluster"}},
		},
		"nor is it while the proxy is being deleted": {
			proxy:     proxy(terminating(30)),
			chaperons: chaperons{chaperon(showing(corev1.PodFailed), without(v1alpha1.ReasonDelegateGone, ""))},
			want:      ends("c1"),
		},
		"a delegate that is refused when it is made again deletes the proxy": {
			proxy:     proxy(),
			chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateRefused, "quota"))},
			want: want{
				Removal: &removal{
					of:      "c1",
					grace:   now,
					message: "the target cluster refuses to run the delegate pod again: quota",
				},
			},
		},
		"a chaperon deleted by hand deletes the proxy": {
			proxy: proxy(), chaperons: chaperons{chaperon(deleted)},
			want: want{Removal: &removal{of: "c1", message: "the PodChaperon is being deleted in the target cluster"}},
		},
		"a pod that somebody bound by hand is left alone": {
			proxy: proxy(phase(corev1.PodPending), func(pod *corev1.Pod) { pod.Annotations = nil }),
		},
		"a proxy that has lost its annotations, and has shown a delegate, is none": {
			proxy: proxy(func(pod *corev1.Pod) {
				pod.Annotations, pod.Status.StartTime = nil, &metav1.Time{Time: time.Unix(1000, 0)}
			}),
			want: want{Removal: &removal{ifGone: true, message: "the PodChaperon was deleted in the target cluster"}},
		},
		"a proxy whose chaperon is missing is deleted with its own grace if it is really gone": {
			proxy: proxy(),
			want: want{
				Removal: &removal{
					ifGone:  true,
					message: "the PodChaperon was deleted in the target cluster",
				},
			},
		},
		"a proxy that a Job counts fails before it goes": {
			proxy: proxy(held, terminating(30)),
			want: want{
				Removal: &removal{
					ifGone: true, ifEnded: true, grace: now, status: &corev1.PodStatus{Phase: corev1.PodFailed},
				},
			},
		},
		"a proxy that a Job counts and that succeeded goes as it is": {
			proxy: proxy(held, terminating(30), phase(corev1.PodSucceeded)),
			want:  want{Removal: &removal{ifGone: true, ifEnded: true, grace: now}},
		},
		"a proxy that a Job counts and that succeeded goes as it is after its delegate, whose end we asked for": {
			proxy: proxy(held, terminating(30), phase(corev1.PodSucceeded)), asked: asked("", time.Second),
			want: want{Removal: &removal{grace: now}},
		},
		"a proxy that a Job counts and that succeeded shows no other phase": {
			proxy:     proxy(held, terminating(30), phase(corev1.PodSucceeded)),
			chaperons: chaperons{chaperon(showing(corev1.PodFailed))},
			want:      ends("c1"),
		},
		"a confirmed proxy that a Job counts and that did not finish fails": {
			proxy: proxy(held, terminating(0)),
			want: want{
				Removal: &removal{
					ifGone: true, ifEnded: true, grace: now, status: &corev1.PodStatus{Phase: corev1.PodFailed},
				},
			},
		},
		"a confirmed proxy that a Job counts and that succeeded is left alone": {
			proxy: proxy(held, terminating(0), phase(corev1.PodSucceeded)),
		},
		"deletion of the proxy is passed on": {
			proxy: proxy(terminating(30)), chaperons: chaperons{chaperon()},
			want: ends("c1"),
		},
		"a shorter grace of the proxy is passed on": {
			proxy: proxy(terminating(5)), chaperons: chaperons{chaperon()},
			want: ends("c1 in 5"),
		},
		"the target's manager is asked once to end a delegate, and has time": {
			proxy: proxy(terminating(5)), chaperons: chaperons{chaperon()}, asked: asked("5", 10*time.Second),
			want: want{Wait: managerPatience - 10*time.Second},
		},
		"a grace of the proxy shortened later is passed on": {
			proxy: proxy(terminating(2)), chaperons: chaperons{chaperon(deleted)}, asked: asked("", time.Hour),
			want: ends("c1 in 2"),
		},
		"a chaperon that the target's manager does not end is left to the garbage collector": {
			proxy: proxy(terminating(30)), chaperons: chaperons{chaperon()}, asked: asked("", managerPatience),
			want: ends("c1, overdue"),
		},
		"an orphan that the target's manager does not end is left to the garbage collector": {
			chaperons: chaperons{chaperon()}, asked: asked("", time.Hour),
			want: ends("c1, if an orphan, overdue"),
		},
		"a chaperon that the garbage collector ends is waited for": {
			proxy: proxy(terminating(5)), chaperons: chaperons{chaperon(deleted)}, asked: asked("5", time.Hour),
			want: want{Wait: sayAgain},
		},
		"a request to end an earlier chaperon does not count for this one": {
			proxy: proxy(
				terminating(30),
			),
			chaperons: chaperons{chaperon()},
			asked:     []ask{{chaperon: "c0", parent: "0"}},
			want:      ends("c1"),
		},
		"a request that the chaperon shows, of an earlier leader, is not made again": {
			proxy: proxy(terminating(5)), chaperons: chaperons{chaperon(toEnd("5"))},
			want: ends("c1 in 5, asked"),
		},
		"a chaperon that placement withdrew is watched": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(toEnd(""))},
			want: ends("c1, asked, withdrawn"),
		},
		"a chaperon that placement withdrew and nobody ends is left to the garbage collector": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(toEnd(""))},
			asked: askedToWithdraw(false), want: ends("c1, asked, withdrawn, overdue"),
		},
		"a chaperon that placement withdrew unless it has a node is watched, too": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(withdrawn(corev1.PodPending))}, spares: true,
			want: ends("c1, asked, withdrawn, spares"),
		},
		"a chaperon that placement withdrew unless it has a node is left to the garbage collector, too": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(withdrawn(corev1.PodPending))}, spares: true,
			asked: askedToWithdraw(true), want: ends("c1, asked, withdrawn, spares, overdue"),
		},
		"a manager that may only have lost its Lease is not asked for the end at once": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(withdrawn(corev1.PodPending))},
			asked: []ask{{chaperon: "c1", spares: true, at: time.Unix(1999, 0)}},
			want:  want{Wait: managerPatience - time.Second},
		},
		"a manager that does not know withdrawals any more is asked for the end": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(withdrawn(corev1.PodPending))},
			asked: askedToWithdraw(true), want: ends("c1, withdrawn"),
		},
		"a manager that does not know withdrawals any more has its time, too": {
			proxy:     proxy(boundTo("")),
			chaperons: chaperons{chaperon(withdrawn(corev1.PodPending), toEnd(""))},
			asked:     askedToWithdraw(false), want: ends("c1, asked, withdrawn, overdue"),
		},
		"a chaperon that placement withdrew too late is not ended": {
			proxy: proxy(boundTo("")), chaperons: chaperons{chaperon(withdrawn(corev1.PodRunning))},
		},
		"a chaperon that placement withdrew is ended for good if the proxy is bound elsewhere": {
			proxy: proxy(boundTo("another")), chaperons: chaperons{chaperon(withdrawn(corev1.PodPending))},
			asked: askedToWithdraw(true), want: ends("c1"),
		},
		"a chaperon that placement withdrew too late is ended for good with its proxy": {
			proxy: proxy(terminating(30)), chaperons: chaperons{chaperon(withdrawn(corev1.PodRunning))},
			asked: askedToWithdraw(true), want: ends("c1"),
		},
		"a proxy whose delegate was fenced goes, and the delegate may still be ending": {
			proxy: proxy(), chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateFenced, "silence"))},
			want: want{Removal: &removal{of: "c1", message: "silence"}},
		},
		"a deletion by force gives the delegate a second": {
			proxy: proxy(held, terminating(0)), chaperons: chaperons{chaperon()},
			want: ends("c1 in 1"),
		},
		"a deletion by force shortens another one": {
			proxy: proxy(held, terminating(0)), chaperons: chaperons{chaperon(toEnd(""))},
			asked: []ask{{chaperon: "c1", parent: "1"}},
			want:  ends("c1 in 1"),
		},
		"the end of a finished proxy is none by force": {
			proxy: proxy(held, terminating(0), phase(corev1.PodFailed)), chaperons: chaperons{chaperon()},
			want: ends("c1"),
		},
		"a terminating proxy shows its delegate until the delegate is gone": {
			proxy: proxy(terminating(30)), chaperons: chaperons{chaperon(deleted, showing(corev1.PodFailed))},
			want: want{Phase: corev1.PodFailed, Wait: sayAgain},
		},
		"a terminating proxy whose chaperon is missing is confirmed": {
			proxy: proxy(terminating(30)),
			want:  want{Removal: &removal{ifGone: true, ifEnded: true, grace: now}},
		},
		"a chaperon whose end we asked for is gone when it left the cache": {
			proxy: proxy(terminating(30)), asked: asked("", time.Second),
			want: want{Removal: &removal{grace: now}},
		},
		"a chaperon that went while its delegate ran does not end the proxy": {
			proxy: proxy(terminating(30)), asked: asked("", time.Second), last: last(corev1.PodRunning),
			want: want{Removal: &removal{ifEnded: true, grace: now}},
		},
		"the last status of a delegate is shown before its proxy goes": {
			proxy: proxy(held, terminating(30)), asked: asked("", time.Second), last: last(corev1.PodSucceeded),
			want: want{Phase: corev1.PodSucceeded, Removal: &removal{grace: now}},
		},
		"the proxy of a delegate that finished before its chaperon went stays, and shows this": {
			proxy: proxy(held), last: last(corev1.PodSucceeded),
			want: want{Phase: corev1.PodSucceeded},
		},
		"the end of an earlier pod's chaperon does not speak for the proxy": {
			proxy: proxy(terminating(30)), asked: []ask{{chaperon: "c0", parent: "0"}},
			want: want{Removal: &removal{ifGone: true, ifEnded: true, grace: now}},
		},
		"a proxy that the API server confirmed, and did not delete, is deleted again": {
			proxy: proxy(terminating(0), phase(corev1.PodSucceeded)),
			want:  want{Removal: &removal{ifGone: true, ifEnded: true, grace: now}},
		},
		"a proxy that was confirmed just now is looked at again": {
			proxy: proxy(terminating(0), phase(corev1.PodSucceeded), func(pod *corev1.Pod) {
				pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1999, 0)}
			}),
			want: want{Wait: deletesAgain},
		},
		"a confirmed proxy that a Job counts is left alone": {
			proxy: proxy(held, terminating(0), phase(corev1.PodFailed)),
		},
		"a finished proxy that nobody deletes is not looked at again": {proxy: proxy(phase(corev1.PodSucceeded))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.proxy != nil {
				cached, err := podcache.Transform(test.proxy)
				if err != nil {
					t.Fatal(err)
				}
				test.proxy = cached.(*corev1.Pod)
			}
			before := test.proxy.DeepCopy()
			p := decide(
				state{
					nodeName:  node,
					proxy:     test.proxy,
					chaperons: test.chaperons,
					spares:    test.spares,
					asked:     test.asked,
					last:      test.last,
					vet:       anyAddress,
					now:       time.Unix(2000, 0),
				},
			)
			got := want{Endings: describe(p.endings), Removal: p.removal, Wait: p.wait}
			if p.status != nil {
				got.Phase = p.status.Phase
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(removal{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.proxy); diff != "" {
				t.Errorf("the proxy was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestADelegateThatDoesNotEndIsOverdue(t *testing.T) {
	proxy := proxy(terminating(30))
	s := state{
		nodeName: node, proxy: proxy, chaperons: []v1alpha1.PodChaperon{chaperon(deleted)}, vet: anyAddress,
	}
	due := proxy.DeletionTimestamp.Add(managerPatience + endSlack)
	s.now = due.Add(-time.Second)
	if p := decide(s); p.overdue || p.wait != time.Second {
		t.Errorf("a second before: overdue: %t, next look after %s", p.overdue, p.wait)
	}
	s.now = due
	if p := decide(s); !p.overdue || p.wait != sayAgain {
		t.Errorf("overdue: %t, next look after %s", p.overdue, p.wait)
	}
}

func anyAddress(netip.Addr) *addresses.RefusedError { return nil }

func describe(endings []ending) []string {
	var all []string
	for _, e := range endings {
		s := string(e.chaperon.UID)
		if e.grace != "" {
			s += " in " + e.grace
		}
		if e.ifOrphan {
			s += ", if an orphan"
		}
		if e.asked {
			s += ", asked"
		}
		if e.withdrawn {
			s += ", withdrawn"
		}
		if e.spares {
			s += ", spares"
		}
		if e.overdue {
			s += ", overdue"
		}
		all = append(all, s)
	}
	return all
}

func TestAStatusPatchHoldsOnlyWhatDiffersAndTheUID(t *testing.T) {
	before := proxy(func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		}
		pod.Status.HostIP = "10.0.0.1"
	})
	status := before.Status.DeepCopy()
	status.Conditions[1].Status = corev1.ConditionTrue
	status.PodIP = "10.1.0.7"
	patch, err := statusPatch(before, *status)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"uid":"1"},"status":{` +
		`"$setElementOrder/conditions":[{"type":"PodScheduled"},{"type":"Ready"}],` +
		`"conditions":[{"status":"True","type":"Ready"}],"podIP":"10.1.0.7"}}`
	if diff := cmp.Diff(want, string(patch)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}
