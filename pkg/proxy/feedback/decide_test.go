package feedback

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const node = "admiralty-c2"

// proxy is a proxy bound to node, Running, that nobody deletes.
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
			Namespace: "default", Name: translate.DelegateName(proxy()), UID: "c1",
			Labels:      map[string]string{v1alpha1.LabelParentUID: "1"},
			Annotations: map[string]string{v1alpha1.AnnotationParentNamespace: "default", v1alpha1.AnnotationParentName: "web"},
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

func forged(c *v1alpha1.PodChaperon) { c.Namespace, c.UID = "theirs", "c2" }

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

func asked(grace string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) { c.Annotations[v1alpha1.AnnotationDeletionGracePeriod] = grace }
}

func TestDecide(t *testing.T) {
	type chaperons = []v1alpha1.PodChaperon
	type uids = []string
	now := ptr.To[int64](0)
	// want is a plan with PodChaperons named by their UIDs and statuses by their phase.
	type want struct {
		Orphans, Unwanted uids
		Hasten            string
		Grace             int64
		Phase             corev1.PodPhase
		Removal           *removal
	}
	tests := map[string]struct {
		proxy     *corev1.Pod
		chaperons chaperons
		want      want
	}{
		"nothing anywhere": {},
		"a proxy in step with its delegate is left alone": {proxy: proxy(), chaperons: chaperons{chaperon()}},
		"a change is shown": {
			proxy: proxy(phase(corev1.PodPending)), chaperons: chaperons{chaperon()},
			want: want{Phase: corev1.PodRunning},
		},
		"success is shown": {
			proxy: proxy(), chaperons: chaperons{chaperon(showing(corev1.PodSucceeded))},
			want: want{Phase: corev1.PodSucceeded},
		},
		"a finished proxy never runs again": {
			proxy: proxy(phase(corev1.PodSucceeded)), chaperons: chaperons{chaperon()},
		},
		"a finished proxy outlives its delegate": {
			proxy:     proxy(phase(corev1.PodFailed)),
			chaperons: chaperons{chaperon(showing(corev1.PodFailed), without(v1alpha1.ReasonDelegateGone, ""))},
		},
		"a finished proxy outlives its chaperon": {
			proxy: proxy(phase(corev1.PodSucceeded)),
		},
		"a delegate that finished and was deleted before we saw it is shown as finished": {
			proxy:     proxy(),
			chaperons: chaperons{chaperon(showing(corev1.PodSucceeded), without(v1alpha1.ReasonDelegateGone, ""))},
			want:      want{Phase: corev1.PodSucceeded},
		},
		"an unbound proxy is the scheduler's": {
			proxy: proxy(boundTo(""), phase(corev1.PodPending)), chaperons: chaperons{chaperon()},
		},
		"an unbound proxy that goes takes its chaperon along": {
			proxy: proxy(boundTo(""), held, terminating(0)), chaperons: chaperons{chaperon()},
			want: want{Unwanted: uids{"c1"}},
		},
		"a chaperon without a proxy is an orphan": {
			chaperons: chaperons{chaperon()}, want: want{Orphans: uids{"c1"}},
		},
		"an orphan that goes already is left alone": {
			chaperons: chaperons{chaperon(deleted)},
		},
		"a chaperon of an earlier pod of that name is an orphan, and the proxy is not shown its status": {
			proxy: proxy(boundTo(""), phase(corev1.PodPending)), chaperons: chaperons{chaperon(ofAnother)},
			want: want{Orphans: uids{"c1"}},
		},
		"a chaperon of another namespace does not speak for the proxy": {
			proxy:     proxy(),
			chaperons: chaperons{chaperon(), chaperon(forged, showing(corev1.PodFailed))},
		},
		"a proxy bound elsewhere has no chaperon here": {
			proxy: proxy(boundTo("admiralty-c3")), chaperons: chaperons{chaperon()},
			want: want{Unwanted: uids{"c1"}},
		},
		"a proxy bound elsewhere is none of our business": {
			proxy: proxy(boundTo("admiralty-c3"), terminating(30)),
		},
		"a deleted delegate deletes the proxy with its own grace": {
			proxy: proxy(), chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateTerminating, ""))},
			want: want{Removal: &removal{message: "the delegate pod is being deleted in the target cluster"}},
		},
		"a delegate that is gone deletes the proxy at once": {
			proxy: proxy(), chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateGone, ""))},
			want: want{Removal: &removal{grace: now, message: "the delegate pod was deleted in the target cluster"}},
		},
		"a delegate that is refused when it is made again deletes the proxy": {
			proxy: proxy(), chaperons: chaperons{chaperon(without(v1alpha1.ReasonDelegateRefused, "quota"))},
			want: want{Removal: &removal{grace: now, message: "the target cluster refuses to run the delegate pod again: quota"}},
		},
		"a chaperon deleted by hand deletes the proxy": {
			proxy: proxy(), chaperons: chaperons{chaperon(deleted)},
			want: want{Removal: &removal{message: "the PodChaperon is being deleted in the target cluster"}},
		},
		"a proxy whose chaperon is missing is deleted if it is really gone": {
			proxy: proxy(),
			want:  want{Removal: &removal{ifGone: true, grace: now, message: "the PodChaperon was deleted in the target cluster"}},
		},
		"a proxy that a Job counts fails before it goes": {
			proxy: proxy(held, terminating(30)),
			want:  want{Removal: &removal{ifGone: true, grace: now, status: &corev1.PodStatus{Phase: corev1.PodFailed}}},
		},
		"deletion is passed on": {
			proxy: proxy(terminating(30)), chaperons: chaperons{chaperon()},
			want: want{Unwanted: uids{"c1"}},
		},
		"a shorter grace is passed on": {
			proxy: proxy(terminating(5)), chaperons: chaperons{chaperon()},
			want: want{Hasten: "c1", Grace: 5},
		},
		"a shorter grace is passed on once": {
			proxy: proxy(terminating(5)), chaperons: chaperons{chaperon(asked("5"))},
		},
		"a grace shortened later is passed on": {
			proxy: proxy(terminating(2)), chaperons: chaperons{chaperon(asked("5"), deleted)},
			want: want{Hasten: "c1", Grace: 2},
		},
		"grace zero does not kill": {
			proxy: proxy(held, terminating(0)), chaperons: chaperons{chaperon()},
			want: want{Unwanted: uids{"c1"}},
		},
		"a terminating proxy shows its delegate until that is gone": {
			proxy: proxy(terminating(30)), chaperons: chaperons{chaperon(deleted, showing(corev1.PodFailed))},
			want: want{Phase: corev1.PodFailed},
		},
		"a terminating proxy whose chaperon is missing is confirmed": {
			proxy: proxy(terminating(30)),
			want:  want{Removal: &removal{ifGone: true, grace: now}},
		},
		"a confirmed proxy that a Job counts is left alone": {
			proxy: proxy(held, terminating(0), phase(corev1.PodFailed)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.proxy.DeepCopy()
			p := decide(state{nodeName: node, proxy: test.proxy, chaperons: test.chaperons})
			got := want{Orphans: uidsOf(p.orphans), Unwanted: uidsOf(p.unwanted), Grace: p.grace, Removal: p.removal}
			if p.hasten != nil {
				got.Hasten = string(p.hasten.UID)
			}
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

func uidsOf(chaperons []*v1alpha1.PodChaperon) []string {
	var uids []string
	for _, c := range chaperons {
		uids = append(uids, string(c.UID))
	}
	return uids
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
	want := `{"metadata":{"uid":"1"},"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"},{"type":"Ready"}],` +
		`"conditions":[{"status":"True","type":"Ready"}],"podIP":"10.1.0.7"}}`
	if diff := cmp.Diff(want, string(patch)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}
