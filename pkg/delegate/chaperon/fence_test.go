package chaperon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDecideForASilentSource(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	message := fmt.Sprintf(messageFenced, time.Minute)
	condition := func(reason, message string, ago time.Duration) corev1.PodCondition {
		return corev1.PodCondition{
			Type: v1alpha1.ConditionDelegate, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(now.Add(-ago)),
		}
	}
	gone := condition(v1alpha1.ReasonDelegateGone, messageGone, time.Hour)
	isFenced := func(phase corev1.PodPhase, ago time.Duration) *corev1.PodStatus {
		return &corev1.PodStatus{
			Phase: phase, Reason: "Fenced", Message: message,
			Conditions: []corev1.PodCondition{condition(v1alpha1.ReasonDelegateFenced, message, ago)},
		}
	}
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	refused := corev1.PodStatus{
		Phase:      corev1.PodPending,
		Conditions: []corev1.PodCondition{condition(v1alpha1.ReasonDelegateRefused, "quota", 0)},
	}
	longGrace := func(p *corev1.Pod) { terminatingPod(p); p.DeletionGracePeriodSeconds = ptr.To[int64](3600) }
	moreTime := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600) }
	stop := func(status *corev1.PodStatus) decision {
		return decision{status: status, deleteDelegate: true, afterStatus: true}
	}
	shorten := stop(isFenced(corev1.PodRunning, 0))
	shorten.grace = ptr.To[int64](30)

	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		pod      *corev1.Pod
		heard    bool
		want     decision
	}{
		"a running delegate is stopped with its grace period": {
			chaperon: chaperon(running, fence), pod: delegate(running), want: stop(isFenced(corev1.PodRunning, 0)),
		},
		"a pending delegate is stopped": {
			chaperon: chaperon(corev1.PodStatus{}, fence), pod: delegate(corev1.PodStatus{Phase: corev1.PodPending}),
			want: stop(isFenced(corev1.PodPending, 0)),
		},
		"a delegate that ends is not deleted twice": {
			chaperon: chaperon(running, fence), pod: delegate(running, terminatingPod),
			want: decision{status: isFenced(corev1.PodRunning, 0)},
		},
		"a delegate that would end later gets its own grace period": {
			chaperon: chaperon(running, fence), pod: delegate(running, longGrace), want: shorten,
		},
		"a delegate to which a webhook gave a longer grace period gets that of its PodChaperon": {
			chaperon: chaperon(running, fence), pod: delegate(running, moreTime), want: shorten,
		},
		"a delegate to which a webhook gave a longer one, and that ends": {
			chaperon: chaperon(running, fence), pod: delegate(running, moreTime, longGrace), want: shorten,
		},
		"a delegate that the source asked to end later gets its own grace period": {
			chaperon: chaperon(running, grace("3600")), pod: delegate(running, longGrace),
			want: decision{status: &running, deleteDelegate: true, grace: ptr.To[int64](30)},
		},
		"a delegate that the source asked to end later, of a source that is heard of, ends later": {
			chaperon: chaperon(running, grace("3600")), pod: delegate(running, longGrace), heard: true,
			want: decision{status: &running},
		},
		"a delegate that finished stays": {
			chaperon: chaperon(running, fence), pod: delegate(corev1.PodStatus{Phase: corev1.PodSucceeded}),
			want: decision{status: &corev1.PodStatus{Phase: corev1.PodSucceeded}},
		},
		"a delegate that finished and is gone is not fenced": {
			chaperon: chaperon(corev1.PodStatus{Phase: corev1.PodFailed}, fence), want: decision{},
		},
		"a new PodChaperon gets no delegate": {
			chaperon: chaperon(corev1.PodStatus{}, fence), want: decision{status: isFenced(corev1.PodPending, 0)},
		},
		"a lost delegate is not made again": {
			chaperon: chaperon(corev1.PodStatus{
				Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{gone},
			}, fence),
			want: decision{status: isFenced(corev1.PodRunning, 0)},
		},
		"a refused delegate stays refused": {chaperon: chaperon(refused, fence), want: decision{}},
		"a deleted PodChaperon is left to the garbage collector": {
			chaperon: chaperon(running, fence, deleted), pod: delegate(running), want: decision{status: &running},
		},
		"another's pod is left alone": {
			chaperon: chaperon(corev1.PodStatus{}, fence), pod: delegate(running, notOurs),
			want: decision{status: ptr.To(*withCondition(
				&corev1.PodStatus{Phase: corev1.PodPending}, v1alpha1.ReasonDelegateRefused, messageNotOurs, now,
			))},
		},
		"a fenced delegate is not made again when the source is heard of": {
			chaperon: chaperon(*isFenced(corev1.PodRunning, 24*time.Hour), fence), heard: true,
			want: decision{status: isFenced(corev1.PodRunning, 24*time.Hour)},
		},
		"a fenced delegate whose deletion failed is deleted when the source is heard of": {
			chaperon: chaperon(*isFenced(corev1.PodRunning, time.Hour), fence), pod: delegate(running), heard: true,
			want: stop(isFenced(corev1.PodRunning, time.Hour)),
		},
		"a fenced delegate that ends shows how": {
			chaperon: chaperon(*isFenced(corev1.PodRunning, time.Hour), fence),
			pod:      delegate(corev1.PodStatus{Phase: corev1.PodFailed}, terminatingPod), heard: true,
			want: decision{status: isFenced(corev1.PodFailed, time.Hour)},
		},
		"a delegate that ends within its own grace period is not asked to end sooner": {
			chaperon: chaperon(running, fence), pod: delegate(running, terminatingPod),
			want: decision{status: isFenced(corev1.PodRunning, 0)},
		},
		"the source can end the PodChaperon of a fenced delegate": {
			chaperon: chaperon(*isFenced(corev1.PodRunning, time.Hour), grace("")), heard: true,
			want: decision{deleteChaperon: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(test.chaperon, test.pod, !test.heard, now)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(decision{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestADelegateIsFencedAfterItsOwnTime(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	for name, test := range map[string]struct {
		value  string
		silent time.Duration
		known  bool
		fenced bool
	}{
		"silent for long enough":      {"60", time.Minute, true, true},
		"silent for less":             {"60", time.Minute - 1, true, false},
		"not heard of by anybody":     {"60", 0, false, false},
		"an earlier version's source": {"", time.Hour, true, false},
		"turned off":                  {"0", time.Hour, true, false},
		"an invalid value":            {"1", time.Hour, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(running, fenceAfter(test.value)), delegate(running))
			s.reconciler.FenceBy(func(_ context.Context, of *v1alpha1.PodChaperon) (time.Duration, bool, error) {
				if of.UID != s.chaperon().UID {
					t.Errorf("asked about %q", of.Name)
				}
				return test.silent, test.known, nil
			})
			s.mustReconcile()
			if got := fenced(s.chaperon()); got != test.fenced {
				t.Errorf("fenced: %v, want %v", got, test.fenced)
			}
			if test.fenced {
				s.expectNoDelegate()
				s.expectEvent(reasonFenced)
				s.mustReconcile()
				s.mustReconcile()
				s.expectNoDelegate()
			}
			if len(s.recorder.Events) > 0 {
				t.Errorf("event %q", <-s.recorder.Events)
			}
		})
	}
}

func TestADelegateIsNotStoppedBeforeItsPodChaperonSaysSo(t *testing.T) {
	// A conflict means that the PodChaperon has changed: its source may have asked for something.
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	s := newStage(t, chaperon(running, fenceAfter("60")), delegate(running))
	s.reconciler.FenceBy(silentFor(time.Hour))
	s.cached = s.chaperon()
	changed := s.chaperon()
	changed.Labels["touched"] = ""
	if err := s.client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(changed), &corev1.Pod{}); err != nil {
		t.Errorf("getting the delegate: %v", err)
	}
	s.cached = nil
	s.mustReconcile()
	s.expectNoDelegate()
}

func TestNothingHappensWhileNobodyKnowsWhetherTheSourceIsSilent(t *testing.T) {
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	s := newStage(t, chaperon(running, fenceAfter("60")), delegate(running))
	down := errors.New("down")
	s.reconciler.FenceBy(func(context.Context, *v1alpha1.PodChaperon) (time.Duration, bool, error) {
		return time.Hour, true, down
	})
	if _, err := s.reconcile(); !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
	if s.statusWrites > 0 {
		t.Error("it was written")
	}
}

func TestADelegateThatCannotBeFencedIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		value   string
		silence Silence
		event   bool
	}{
		"the source has a Lease":              {"60", silentFor(0), false},
		"the source has none":                 {"60", never, true},
		"this cluster has no Leases":          {"60", nil, true},
		"nobody asked, and there is no Lease": {"", never, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(corev1.PodStatus{}, fenceAfter(test.value)))
			s.reconciler.FenceBy(test.silence)
			s.mustReconcile()
			if test.event {
				s.expectEvent(reasonUnfenced)
			}
			if len(s.recorder.Events) > 0 {
				t.Errorf("event %q", <-s.recorder.Events)
			}
			pod := &corev1.Pod{}
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.chaperon()), pod); err != nil {
				t.Fatal(err)
			}
			if _, ok := pod.Annotations[v1alpha1.AnnotationFenceAfter]; ok {
				t.Error("the delegate has our annotation")
			}
		})
	}
}

// TestALostDelegateThatIsFencedIsReportedOnce has the first of the two conditions already.
func TestALostDelegateThatIsFencedIsReportedOnce(t *testing.T) {
	gone := withCondition(&corev1.PodStatus{Phase: corev1.PodRunning}, v1alpha1.ReasonDelegateGone, messageGone,
		time.Unix(0, 0))
	s := newStage(t, chaperon(*gone, fence))
	s.reconciler.FenceBy(silentFor(time.Hour))
	s.mustReconcile()
	s.expectEvent(reasonFenced)
	s.mustReconcile()
	if len(s.recorder.Events) > 0 {
		t.Errorf("event %q", <-s.recorder.Events)
	}
}

func TestToBeFenced(t *testing.T) {
	isFenced := withCondition(&corev1.PodStatus{Phase: corev1.PodRunning}, v1alpha1.ReasonDelegateFenced, "m",
		time.Unix(0, 0))
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		silent   time.Duration
		want     bool
	}{
		"after its time":                   {chaperon(corev1.PodStatus{}, fence), time.Minute, true},
		"a moment before":                  {chaperon(corev1.PodStatus{}, fence), time.Minute - 1, false},
		"it did not ask":                   {chaperon(corev1.PodStatus{}), time.Hour, false},
		"it did not ask, and nobody knows": {chaperon(corev1.PodStatus{}), 0, false},
		"it is fenced":                     {chaperon(*isFenced, fence), time.Hour, false},
		"it has finished": {
			chaperon(corev1.PodStatus{Phase: corev1.PodSucceeded}, fence), time.Hour, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ToBeFenced(test.chaperon, test.silent); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestAFencedDelegateAppearsLate(t *testing.T) {
	// The cache did not show the delegate yet when it was fenced.
	s := newStage(t, chaperon(corev1.PodStatus{}, fenceAfter("60")), delegate(corev1.PodStatus{}))
	s.reconciler.FenceBy(silentFor(time.Hour))
	s.hidePods = true
	s.mustReconcile()
	s.hidePods = false
	s.reconciler.FenceBy(silentFor(0))
	s.mustReconcile()
	s.expectNoDelegate()
	if apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(s.chaperon()), s.chaperon())) {
		t.Error("the PodChaperon is gone")
	}
}

func silentFor(d time.Duration) Silence {
	return func(context.Context, *v1alpha1.PodChaperon) (time.Duration, bool, error) { return d, true, nil }
}

func never(context.Context, *v1alpha1.PodChaperon) (time.Duration, bool, error) { return 0, false, nil }

func fence(c *v1alpha1.PodChaperon) { fenceAfter("60")(c) }

func fenceAfter(value string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Labels = map[string]string{v1alpha1.LabelParentClusterID: "c1"}
		c.Annotations = map[string]string{v1alpha1.AnnotationFenceAfter: value}
	}
}

func (s *stage) expectEvent(reason string) {
	s.t.Helper()
	select {
	case event := <-s.recorder.Events:
		if !slices.Contains(strings.Fields(event), reason) {
			s.t.Errorf("event %q, want %s", event, reason)
		}
	default:
		s.t.Errorf("no event %s", reason)
	}
}
