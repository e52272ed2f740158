package chaperon

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// older makes a stage whose API server drops a field of pods, as older versions of Kubernetes do.
func older(t *testing.T) *stage {
	t.Helper()
	c := chaperon(corev1.PodStatus{})
	c.Spec.HostnameOverride = new("new")
	s := newStage(t, c)
	s.mutate = func(pod *corev1.Pod) { pod.Spec.HostnameOverride = nil }
	return s
}

func (s *stage) fields() *corev1.PodCondition {
	s.t.Helper()
	status := s.chaperon().Status
	return fieldsCondition(&status)
}

func TestFieldsThatTheTargetDropsAreShown(t *testing.T) {
	s := older(t)
	s.mustReconcile()
	got := s.fields()
	if got == nil || got.Status != corev1.ConditionFalse || got.Reason != v1alpha1.ReasonFieldsDropped ||
		!strings.Contains(got.Message, "spec.hostnameOverride") {
		t.Fatalf("the condition is %v", got)
	}
	select {
	case event := <-s.recorder.Events:
		if !strings.Contains(event, reasonFieldsDropped) || !strings.Contains(event, "spec.hostnameOverride") {
			t.Errorf("the event is %q", event)
		}
	default:
		t.Error("there is no event")
	}
	pod := s.delegate()
	pod.Status.Phase = corev1.PodRunning
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if status := s.chaperon().Status; status.Phase != corev1.PodRunning || s.fields() == nil {
		t.Errorf("the next status lost the condition: %v", status)
	}
	if s.mustReconcile(); s.statusWrites != 2 || len(s.recorder.Events) > 0 {
		t.Errorf("%d writes of the status, and %d events more", s.statusWrites, len(s.recorder.Events))
	}
}

func TestANewLeaderKeepsTheConditionOfDroppedFields(t *testing.T) {
	s := older(t)
	s.mustReconcile()
	s.reconciler.lost = lostFields{}
	pod := s.delegate()
	pod.Status.Phase = corev1.PodRunning
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if s.fields() == nil {
		t.Error("the condition is gone")
	}
}

func TestADelegateThatLacksNothingCostsNoWrite(t *testing.T) {
	s := older(t)
	s.mutate = func(pod *corev1.Pod) {
		pod.Spec.Priority = new(int32(0)) // as API servers do
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar"})
	}
	s.mustReconcile()
	if s.fields() != nil || s.statusWrites > 0 || len(s.recorder.Events) > 0 {
		t.Errorf("condition %v, %d writes, %d events", s.fields(), s.statusWrites, len(s.recorder.Events))
	}
}

func TestAnotherDelegateThatLacksNothingLosesTheCondition(t *testing.T) {
	s := older(t)
	s.mustReconcile()
	s.mutate = nil
	if err := s.client.Delete(t.Context(), s.delegate()); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	pod := s.delegate()
	pod.Status.Phase = corev1.PodRunning
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if got := s.fields(); got != nil {
		t.Errorf("the condition is %v", got)
	}
}

func (s *stage) delegate() *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{}
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(chaperon(corev1.PodStatus{})), pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

func TestFieldsThatTheTargetDropsFromAChangeAreShown(t *testing.T) {
	policy := corev1.ContainerRestartPolicyNever
	restricted := func(c *v1alpha1.PodChaperon) {
		debugged(c)
		c.Spec.EphemeralContainers[0].RestartPolicy = &policy
	}
	for name, test := range map[string]struct {
		earlier string // what the condition says already
		want    string
	}{
		"nothing was lost before": {"", messageDropped + "spec.ephemeralContainers[debugger].restartPolicy"},
		"another field was lost": {
			messageDropped + "spec.a", messageDropped + "spec.ephemeralContainers[debugger].restartPolicy, spec.a",
		},
		"the same field was lost": {messageDropped + "spec.ephemeralContainers[debugger].restartPolicy", ""},
		"a field was lost whose path is longer": {
			messageDropped + "spec.ephemeralContainers[debugger].restartPolicyRules",
			messageDropped + "spec.ephemeralContainers[debugger].restartPolicy, " +
				"spec.ephemeralContainers[debugger].restartPolicyRules",
		},
		"the manager did not know a field": {
			messageUnknown + "spec.a",
			messageUnknown + "spec.a, and " + messageDropped + "spec.ephemeralContainers[debugger].restartPolicy",
		},
		"nothing is lost any more": {messageDropped + "spec.a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			wished := changed(restricted)
			if test.earlier != "" {
				wished.Status.Conditions = []corev1.PodCondition{{
					Type: v1alpha1.ConditionFields, Status: corev1.ConditionFalse, Message: test.earlier,
				}}
			}
			s := newChanging(t, running(old()), wished)
			s.stored = func(pod *corev1.Pod) {
				if name != "nothing is lost any more" {
					pod.Spec.EphemeralContainers[0].RestartPolicy = nil
				}
			}
			s.mustReconcile()
			if test.want == "" {
				if s.statuses > 0 || len(s.recorder.Events) > 0 || s.fields().Message != test.earlier {
					t.Errorf("%d writes, %d events, condition %v", s.statuses, len(s.recorder.Events), s.fields())
				}
				return
			}
			got, events := s.fields(), len(s.recorder.Events)
			if got == nil || got.Message != test.want || events != 1 {
				t.Errorf("condition %v, %d events", got, events)
			}
		})
	}
}

func TestDroppedFieldsOfPodChaperonsThatAreGoneAreForgotten(t *testing.T) {
	s := older(t)
	s.mustReconcile()
	if len(s.reconciler.lost.byKey) == 0 {
		t.Fatal("nothing is remembered, so this test shows nothing")
	}
	if err := s.client.Delete(t.Context(), s.chaperon()); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile()
	if n := len(s.reconciler.lost.byKey); n > 0 {
		t.Errorf("%d are remembered", n)
	}
}

// newer returns the PodChaperon as this manager reads it if a newer source gave its spec other fields, too.
func newer(t *testing.T, c *v1alpha1.PodChaperon, fields ...string) *v1alpha1.PodChaperon {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		if err := unstructured.SetNestedField(object, "x", "spec", field); err != nil {
			t.Fatal(err)
		}
	}
	read := &v1alpha1.PodChaperon{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, read); err != nil {
		t.Fatal(err)
	}
	return read
}

func TestFieldsThatTheManagerDoesNotKnowAreShown(t *testing.T) {
	for name, test := range map[string]struct {
		drops bool // Kubernetes does not know another field.
		want  string
	}{
		"it keeps the others": {false, messageUnknown + "spec.future"},
		"Kubernetes drops others": {
			true, messageUnknown + "spec.future, and " + messageDropped + "spec.hostnameOverride",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := older(t)
			if !test.drops {
				s.mutate = nil
			}
			s.cached = newer(t, s.chaperon(), "future")
			s.mustReconcile()
			if got := s.fields(); got == nil || got.Status != corev1.ConditionFalse || got.Message != test.want {
				t.Errorf("the condition is %v", got)
			}
			if len(s.recorder.Events) != 1 {
				t.Fatalf("%d events", len(s.recorder.Events))
			}
			if event := <-s.recorder.Events; !strings.Contains(event, reasonFieldsDropped+" "+test.want) {
				t.Errorf("the event is %q", event)
			}
		})
	}
}

func TestFieldsThatTheManagerDoesNotKnowInAChangeAreShown(t *testing.T) {
	same := of(revision(1, "v1", "web"), nil) // as this manager reads it
	for name, test := range map[string]struct {
		earlier, want string
	}{
		"nothing was lost before":            {"", messageUnknown + "spec.future"},
		"another field was not known before": {messageUnknown + "spec.a", messageUnknown + "spec.future, spec.a"},
		"the same field was not known":       {messageUnknown + "spec.a, spec.future", ""},
		"another field was dropped before": {
			messageDropped + "spec.a", messageDropped + "spec.a, and " + messageUnknown + "spec.future",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wished := same.DeepCopy()
			if test.earlier != "" {
				wished.Status.Conditions = []corev1.PodCondition{{
					Type: v1alpha1.ConditionFields, Status: corev1.ConditionFalse, Message: test.earlier,
				}}
			}
			s := newChanging(t, running(old()), wished)
			s.cached = newer(t, s.chaperon(), "future")
			s.mustReconcile()
			got, want := s.fields(), 1
			if test.want == "" {
				test.want, want = test.earlier, 0
			}
			if events := len(s.recorder.Events); got == nil || got.Message != test.want || events != want {
				t.Errorf("condition %v, %d events", got, events)
			}
		})
	}
}

func TestMessagesAboutManyFieldsSayThatThereMayBeOthers(t *testing.T) {
	var fields []string
	for i := range translate.MaxLostFields {
		fields = append(fields, "spec."+strings.Repeat("x", i+1))
	}
	got := withFields("", messageUnknown, fields)
	if !strings.HasSuffix(got, "spec.xxxxxxxx, and perhaps others") || withFields(got, messageUnknown, fields) != got {
		t.Errorf("message %q", got)
	}
}
