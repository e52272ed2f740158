package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unsupported is the answer of an API server before 1.34.
func unsupported(value string) error {
	distribution := field.NewPath("spec", "trafficDistribution")
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", field.ErrorList{
		field.NotSupported(distribution, value, []string{corev1.ServiceTrafficDistributionPreferClose}),
	})
}

func otherFamily() error {
	families := field.NewPath("spec", "ipFamilies").Index(0)
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", field.ErrorList{
		field.Invalid(families, "IPv6", "not configured on this cluster"),
	})
}

func TestATargetThatDoesNotKnowATrafficDistribution(t *testing.T) {
	const (
		sameNode, sameZone = corev1.ServiceTrafficDistributionPreferSameNode,
			corev1.ServiceTrafficDistributionPreferSameZone
		preferClose = corev1.ServiceTrafficDistributionPreferClose
		create      = "create Service web"
	)
	for name, test := range map[string]struct {
		original string
		answers  []error
		creates  int
		want     string
		refusal  string
	}{
		"it knows all":          {original: sameNode, answers: []error{nil}, creates: 1, want: sameNode},
		"it knows the old name": {original: preferClose, answers: []error{nil}, creates: 1, want: preferClose},
		"it does not know the node": {
			original: sameNode, answers: []error{unsupported(sameNode), nil}, creates: 2, want: preferClose,
			refusal: "the copy has the next best traffic distribution, PreferClose: " +
				"the target does not know PreferSameNode, as before Kubernetes 1.34",
		},
		"it does not know the new name of the zone": {
			original: sameZone, answers: []error{unsupported(sameZone), nil}, creates: 2, want: preferClose,
			refusal: "the copy has the next best traffic distribution, PreferClose: " +
				"the target does not know PreferSameZone, as before Kubernetes 1.34",
		},
		"it has other families, too": {
			original: sameNode, answers: []error{otherFamily(), unsupported(sameNode), nil},
			creates: 3, want: preferClose,
			refusal: "the copy has the next best traffic distribution, PreferClose: " +
				"the target does not know PreferSameNode, as before Kubernetes 1.34",
		},
		"it refuses everything": {
			original: sameNode, answers: []error{unsupported(sameNode)}, creates: 3, want: preferClose,
			refusal: "creating the copy: " + unsupported(sameNode).Error(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			service := web(everywhere(), distributed(test.original))
			w := newWorld(t, []client.Object{service, endpointsOf("web-1", "node")}, nil)
			w.there.answers[create] = test.answers
			err := w.c2.copyService(t.Context(), shop("web"), original{service: service}, w.c2.existing[""])
			if refusal(err) != test.refusal {
				t.Errorf("refusal %q, want %q", refusal(err), test.refusal)
			}
			var creates []string
			for range test.creates {
				creates = append(creates, create)
			}
			if diff := cmp.Diff(creates, w.there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			made, _ := w.there.made.(*unstructured.Unstructured)
			if got, _, _ := unstructured.NestedString(made.Object, "spec", "trafficDistribution"); got != test.want {
				t.Errorf("distribution %q, want %q", got, test.want)
			}
			if got := ptr.Deref(service.Spec.TrafficDistribution, ""); got != test.original {
				t.Errorf("the original has %q now", got)
			}
		})
	}
}

// TestARelaxedCopyIsReportedOnceAndCounts has a target that once refused a traffic distribution.
func TestARelaxedCopyIsReportedOnceAndCounts(t *testing.T) {
	service := web(everywhere(), distributed(corev1.ServiceTrafficDistributionPreferSameNode))
	there := copyOf(t, service)
	patch := "patch Service web: test uid, test parent-cluster-id, add spec"
	there.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
	w := newWorld(t, []client.Object{service}, []client.Object{there})
	w.there.answers["patch Service web"] = []error{
		unsupported(corev1.ServiceTrafficDistributionPreferSameNode), nil,
	}
	for _, want := range [][]string{{patch, "patch Service web: test resourceVersion"}, nil} {
		w.there.writes = nil
		result, err := w.c2.Reconcile(t.Context(), item{kindService, shop("web")})
		if err != nil || result.RequeueAfter != refusedRetry {
			t.Errorf("result %v, error %v", result, err)
		}
		if diff := cmp.Diff(want, w.there.writes); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	if len(w.events.Events) != 1 || !w.c2.copied[shop("web")] {
		t.Errorf("%d events, copied: %v", len(w.events.Events), w.c2.copied)
	}
}

func TestWhichFieldARefusalIsAbout(t *testing.T) {
	bare := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid}}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"the field":           {unsupported("x"), true},
		"another field":       {otherFamily(), false},
		"no details":          {bare, false},
		"another answer":      {apierrors.NewServiceUnavailable("busy"), false},
		"no answer, no error": {nil, false},
	} {
		if got := isAbout(test.err, "spec.trafficDistribution"); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
