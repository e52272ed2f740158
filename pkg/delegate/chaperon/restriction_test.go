package chaperon

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestADelegateThatBreaksARuleIsRefused(t *testing.T) {
	s := newStage(t, privileged(chaperon(corev1.PodStatus{})), baselineOnly())
	s.mustReconcile()
	s.expectNoDelegate()
	lost := lostCondition(&s.chaperon().Status)
	if lost == nil || lost.Reason != v1alpha1.ReasonDelegateRefused ||
		!strings.Contains(lost.Message, `ClusterSource "c1"`) || !strings.Contains(lost.Message, "privileged=true") {
		t.Errorf("condition %v", lost)
	}
	select {
	case event := <-s.recorder.Events:
		if !strings.Contains(event, reasonRefused) || !strings.Contains(event, `"c1"`) {
			t.Errorf("event %q", event)
		}
	default:
		t.Error("no event")
	}
	if !slices.Equal(s.creates, []string{"dry run"}) {
		t.Errorf("requests %v, want a dry run only", s.creates)
	}
}

func TestRulesCostADryRunAndNothingElseDoes(t *testing.T) {
	for name, test := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"a source with rules":    {[]client.Object{baselineOnly()}, []string{"dry run", "create"}},
		"a source without rules": {[]client.Object{clusterSource(nil)}, []string{"create"}},
		"no source":              {nil, []string{"create"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, append(test.objects, chaperon(corev1.PodStatus{}))...)
			s.mustReconcile()
			if !slices.Equal(s.creates, test.want) {
				t.Errorf("requests %v, want %v", s.creates, test.want)
			}
			pod := delegate(corev1.PodStatus{})
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Errorf("getting the delegate: %v", err)
			}
		})
	}
}

func TestTheRulesCheckWhatWebhooksMakeOfTheDelegate(t *testing.T) {
	s := newStage(t, chaperon(corev1.PodStatus{}), baselineOnly())
	s.mutate = func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }
	s.mustReconcile()
	s.expectNoDelegate()
	if lost := lostCondition(&s.chaperon().Status); lost == nil || !strings.Contains(lost.Message, "hostNetwork") {
		t.Errorf("condition %v", lost)
	}
}

func TestADelegateThatIsStoredOtherwiseThanInTheDryRunIsDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		source  client.Object
		mutate  func(*corev1.PodSpec)
		message string
		creates []string
	}{
		"it breaks a rule": {
			baselineOnly(), func(s *corev1.PodSpec) { s.HostNetwork = true },
			"hostNetwork", []string{"dry run", "create"},
		},
		"it runs as a source, and there is no rule": {
			&v1alpha1.Source{
				ObjectMeta: metav1.ObjectMeta{Namespace: chaperon(corev1.PodStatus{}).Namespace, Name: "c3"},
				Spec:       v1alpha1.SourceSpec{ServiceAccountName: "c3"},
			}, func(s *corev1.PodSpec) { s.ServiceAccountName = "c3" }, `Source "c3"`, []string{"create"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, chaperon(corev1.PodStatus{}), test.source)
			s.mutate = func(pod *corev1.Pod) {
				if s.creates[len(s.creates)-1] == "create" {
					test.mutate(&pod.Spec)
				}
			}
			s.mustReconcile()
			s.expectNoDelegate()
			lost := lostCondition(&s.chaperon().Status)
			if lost == nil || lost.Reason != v1alpha1.ReasonDelegateRefused ||
				!strings.Contains(lost.Message, test.message) {
				t.Errorf("condition %v", lost)
			}
			if !slices.Equal(s.creates, test.creates) {
				t.Errorf("requests %v, want %v", s.creates, test.creates)
			}
		})
	}
}

func TestNoDelegateIsCreatedWhileTheRulesAreUnknown(t *testing.T) {
	s := newStage(t, chaperon(corev1.PodStatus{}))
	// Even an error that is a refusal when a pod is created.
	s.listErr = apierrors.NewForbidden(schema.GroupResource{Resource: "clustersources"}, "", errors.New("no"))
	if _, err := s.reconcile(); !errors.Is(err, s.listErr) {
		t.Errorf("error %v, want %v", err, s.listErr)
	}
	s.expectNoDelegate()
	if lost := lostCondition(&s.chaperon().Status); lost != nil || len(s.creates) > 0 {
		t.Errorf("condition %v, requests %v", lost, s.creates)
	}
}

func TestALostDelegateThatBreaksARuleNowIsNotMadeAgain(t *testing.T) {
	lost := withCondition(
		&corev1.PodStatus{Phase: corev1.PodRunning}, v1alpha1.ReasonDelegateGone, messageGone, time.Unix(0, 0),
	)
	s := newStage(t, privileged(chaperon(*lost)), baselineOnly())
	result, err := s.reconcile()
	if err != nil || result.RequeueAfter != remakeAfter || len(s.recorder.Events) != 1 {
		t.Errorf("result %v, error %v, %d events", result, err, len(s.recorder.Events))
	}
	s.expectNoDelegate()
}

// expectNoDelegate checks that no delegate was stored.
func (s *stage) expectNoDelegate() {
	s.t.Helper()
	pods := &corev1.PodList{}
	if err := s.client.List(s.t.Context(), pods); err != nil || len(pods.Items) > 0 {
		s.t.Errorf("%d pods, error %v", len(pods.Items), err)
	}
}

func baselineOnly() *v1alpha1.ClusterSource {
	return clusterSource(
		&v1alpha1.DelegateRules{PodSecurity: &v1alpha1.PodSecurityRule{Level: v1alpha1.PodSecurityBaseline}},
	)
}

func clusterSource(rules *v1alpha1.DelegateRules) *v1alpha1.ClusterSource {
	return &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: v1alpha1.ClusterSourceSpec{Delegates: rules},
	}
}

func privileged(c *v1alpha1.PodChaperon) *v1alpha1.PodChaperon {
	c.Spec.Containers = []corev1.Container{
		{Name: "app", SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}},
	}
	return c
}
