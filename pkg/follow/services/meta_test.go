package services

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestGlobalIsWhatAUserSaysIsGlobal(t *testing.T) {
	const (
		globally = `"f:multicluster.admiralty.io/global":{}`
		original = `"f:multicluster.admiralty.io/original-selector":{}`
	)
	by := func(manager, fields string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{` + fields + `}}}`),
			})
		}
	}
	everywhere := annotated(v1alpha1.AnnotationGlobal, "true")
	rewritten := annotated(v1alpha1.AnnotationOriginalSelector, "app=web")
	for name, test := range map[string]struct {
		service *corev1.Service
		want    bool
	}{
		"a Service without the annotation": {web(), false},
		"another value of the annotation": {
			web(annotated(v1alpha1.AnnotationGlobal, "false")), false,
		},
		"the annotation on a Service that was not rewritten": {web(everywhere), true},
		"the annotation written together with the selector": {
			web(everywhere, rewritten, by(v1alpha1.FieldOwner, globally+","+original)),
			false,
		},
		"the annotation as the old system wrote it": {
			web(everywhere, rewritten, by("manager", globally+","+original)),
			false,
		},
		"the annotation written by a user, before or after the selector": {
			web(everywhere, rewritten, by(v1alpha1.FieldOwner, globally+","+original), by("kubectl", globally)),
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := withOurs(test.service); err != nil {
				t.Fatal(err)
			}
			if got := global(test.service); got != test.want {
				t.Errorf("global: got %t, want %t", got, test.want)
			}
		})
	}
}
