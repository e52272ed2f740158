package scheduling

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fakeclients "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

func TestOurMessageTakesThePlaceOfKubeSchedulers(t *testing.T) {
	for message, want := range map[string]string{"c1: full": "Warning FailedScheduling c1: full", "": ""} {
		recorder := events.NewFakeRecorder(1)
		r := messageRecorder{recorder, message}.WithLogger(klog.Background())
		r.Eventf(newPod("p", nil), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", "0/3 %s", "nodes")
		got := ""
		select {
		case got = <-recorder.Events:
		default:
		}
		if got != want {
			t.Errorf("the event is %q, want %q", got, want)
		}
	}
}

func TestAConditionIsWrittenIfItDiffers(t *testing.T) {
	is := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "c1: full"}
	for name, test := range map[string]struct {
		message string
		said    []corev1.PodConditionType
		written bool
	}{
		"the same":               {"c1: full", []corev1.PodConditionType{corev1.PodScheduled}, false},
		"another message":        {"c1: busy", []corev1.PodConditionType{corev1.PodScheduled}, true},
		"no message":             {"", []corev1.PodConditionType{corev1.PodScheduled}, false},
		"another condition, too": {"c1: full", []corev1.PodConditionType{corev1.PodScheduled, "Another"}, true},
		"another condition, and then the same": {
			"c1: full", []corev1.PodConditionType{"Another", corev1.PodScheduled}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", nil)
			pod.Status.Conditions = []corev1.PodCondition{is}
			clients := &fakeclients.Clientset{} // It notes what is written.
			w := conditionWriter{ctx: t.Context(), clients: clients, message: test.message}
			var conditions []*corev1.PodCondition
			for _, kind := range test.said {
				said := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Message: "0/3 nodes"}
				conditions = append(conditions, &said)
			}
			if _, err := w.PatchPodStatus(pod, conditions, nil); err != nil {
				t.Fatal(err)
			}
			var patches []string
			for _, action := range clients.Actions() {
				if patch, ok := action.(clienttesting.PatchAction); ok {
					patches = append(patches, string(patch.GetPatch()))
				}
			}
			if written := len(patches) == 1; written != test.written {
				t.Errorf("written: %q", patches)
			}
			for _, patch := range patches {
				if !strings.Contains(patch, test.message) || strings.Contains(patch, "nodes") {
					t.Errorf("it says %s", patch)
				}
			}
		})
	}
}
