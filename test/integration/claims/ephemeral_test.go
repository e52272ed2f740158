package claims

import (
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/admission"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The webhook reads StorageClasses with the rights of the chart.
func TestNoEphemeralVolumeIsMadeInTheSource(t *testing.T) {
	handler := admission.Handler{Reader: env.ClientFor(t, logins[source])}
	for name, tc := range map[string]struct {
		class   *string
		refused string
	}{
		"the default class, which is bound at once": {nil, `"gp3"`},
		"a class that is bound at once":             {new("fast"), `"fast"`},
		"a class that waits":                        {new("waits"), ""},
		"a class that only targets have":            {new("standard"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: env.Meta("default", "web"), Spec: env.PodSpec()}
			pod.Annotations = map[string]string{v1alpha1.AnnotationElect: ""}
			template := &corev1.PersistentVolumeClaimTemplate{}
			template.Spec.StorageClassName = tc.class
			pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: template},
			}}}
			raw, err := json.Marshal(pod)
			env.Must(t, err)
			resp := handler.Handle(t.Context(), ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
			}})
			if resp.Allowed != (tc.refused == "") {
				t.Fatalf("allowed %t: %v", resp.Allowed, resp.Result)
			}
			if tc.refused != "" && !strings.Contains(resp.Result.Message, tc.refused) {
				t.Errorf("the message is %q, want %s", resp.Result.Message, tc.refused)
			}
		})
	}
}
