package translate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestResourceClaimsMustExistInTargets(t *testing.T) {
	const key = v1alpha1.AnnotationUseExisting
	claims := func(spec *corev1.PodSpec) {
		spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "a", ResourceClaimTemplateName: ptr.To("gpu")}, {Name: "b", ResourceClaimName: ptr.To("shared")},
		}
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"nothing says that they do": {nil, []string{
			`spec.resourceClaims[0]: Forbidden: the ResourceClaimTemplate "gpu" does not follow`,
			"create it in the targets, and say so by the annotation " + key + ": resourceclaimtemplates/gpu",
			`spec.resourceClaims[1]: Forbidden: the ResourceClaim "shared"`,
		}},
		"one is listed": {map[string]string{key: "resourceclaimtemplates/gpu"}, []string{`the ResourceClaim "shared"`}},
		"one of another kind is listed": {map[string]string{key: "resourceclaims/gpu,resourceclaims/shared"}, []string{
			`the ResourceClaimTemplate "gpu"`,
		}},
		"both are listed": {map[string]string{key: "resourceclaimtemplates/gpu,resourceclaims/shared"}, nil},
		"all are listed":  {map[string]string{key: ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, err := translate.Proxy(elected(test.annotations, claims))
			if (err == nil) != (test.want == nil) {
				t.Fatalf("error %v", err)
			}
			for _, text := range test.want {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v lacks %s", err, text)
				}
			}
			if err != nil {
				return
			}
			if c := mustChaperon(t, proxy); len(c.Spec.ResourceClaims) != 2 {
				t.Errorf("the delegate has the claims %v", c.Spec.ResourceClaims)
			}
		})
	}
}
