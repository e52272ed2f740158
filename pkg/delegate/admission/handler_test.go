package admission

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
)

const (
	user    = "system:serviceaccount:admiralty:c1"
	sibling = "c1-by-certificate"
)

// service returns a Service that a user copied from a cluster. Empty marks are left out.
func service(copiedBy, clusterID string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if copiedBy != "" {
		s.Annotations = map[string]string{v1alpha1.AnnotationFollowedBy: copiedBy}
	}
	if clusterID != "" {
		s.Labels = map[string]string{v1alpha1.LabelParentClusterID: clusterID}
	}
	return s
}

func readers(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// request returns the request of a user to write an EndpointSlice of Service web with these labels.
func request(t *testing.T, operation admissionv1.Operation, who string, labels map[string]string) admission.Request {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: labels}}
	raw, err := json.Marshal(slice)
	if err != nil {
		t.Fatal(err)
	}
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: "shop", Object: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: who},
	}}
}

func of(service, clusterID string) map[string]string {
	return map[string]string{discoveryv1.LabelServiceName: service, v1alpha1.LabelParentClusterID: clusterID}
}

// leadsTo refuses addresses for a reason, and notes what it is asked.
type leadsTo struct {
	reason        string
	late          error
	slice, before *discoveryv1.EndpointSlice
}

func (l *leadsTo) Wait(context.Context) error { return l.late }

func (l *leadsTo) Check(slice, before *discoveryv1.EndpointSlice) *addresses.RefusedError {
	l.slice, l.before = slice, before
	if l.reason == "" {
		return nil
	}
	return &addresses.RefusedError{Address: "10.4.0.9", Reason: l.reason}
}

func TestAddressesOfEndpointsAreChecked(t *testing.T) {
	c := readers(t, service(user, "id-1"))
	change := request(t, admissionv1.Update, user, of("web", "id-1"))
	change.OldObject = change.Object
	for name, test := range map[string]struct {
		leadsTo leadsTo
		request admission.Request
		code    int32
		says    string
	}{
		"none is refused":  {leadsTo{}, change, http.StatusOK, ""},
		"one is refused":   {leadsTo{reason: "in use"}, change, http.StatusForbidden, "the address 10.4.0.9 is in use"},
		"not known so far": {leadsTo{late: errors.New("late")}, change, http.StatusInternalServerError, "late"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := handler{c, c, &test.leadsTo}.Handle(t.Context(), test.request)
			if answer.Result.Code != test.code || !strings.Contains(answer.Result.Message, test.says) {
				t.Errorf("got %+v, want %d, %q", answer.Result, test.code, test.says)
			}
			if test.leadsTo.late == nil && (test.leadsTo.slice.Namespace != "shop" || test.leadsTo.before == nil) {
				t.Errorf("checked %v before %v", test.leadsTo.slice, test.leadsTo.before)
			}
		})
	}
	created := &leadsTo{}
	handler{c, c, created}.Handle(t.Context(), request(t, admissionv1.Create, user, of("web", "id-1")))
	if created.slice == nil || created.before != nil {
		t.Errorf("a new EndpointSlice was %v before", created.before)
	}
}

func TestAnEndpointSliceBelongsToACopyOfTheSameSource(t *testing.T) {
	named := &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: "c1"},
		Spec: v1alpha1.ClusterSourceSpec{
			ClusterID: "id-1", ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: "admiralty", Name: "c1"},
		},
	}
	inNamespace := func(namespace string) *v1alpha1.Source {
		return &v1alpha1.Source{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"},
			Spec:       v1alpha1.SourceSpec{ClusterID: "id-1", UserName: sibling},
		}
	}
	with := func(objects ...client.Object) []client.Object { return objects }
	ours := of("web", "id-1")
	for name, test := range map[string]struct {
		objects []client.Object
		who     string
		labels  map[string]string
		want    string // part of the message; empty if allowed
	}{
		"the user's own copy":                     {with(service(user, "id-1")), user, ours, ""},
		"no Service is named":                     {nil, user, of("", "id-1"), "names no Service"},
		"the Service is not there":                {nil, user, ours, "write the Service first"},
		"a Service of the target":                 {with(service("", "")), user, ours, "not a copy"},
		"a Service with the cluster ID only":      {with(service("", "id-1")), user, ours, "not a copy"},
		"a Service with the mark only":            {with(service(user, "")), user, of("web", ""), "not a copy"},
		"another cluster's copy":                  {with(service("c2", "id-2")), user, ours, "not a copy"},
		"another cluster's copy by the same user": {with(service(user, "id-2")), user, ours, "not a copy"},
		"another user's copy":                     {with(service(sibling, "id-1")), user, ours, "spec.clusterID"},
		"another user's copy of the same source":  {with(service(sibling, "id-1"), named), user, ours, ""},
		"the same by a Source of the namespace": {
			with(service(user, "id-1"), inNamespace("shop")), sibling, ours, "",
		},
		"the same by a Source of another namespace": {
			with(service(user, "id-1"), inNamespace("x")), sibling, ours, "spec.clusterID",
		},
		"a source that is named another ID": {
			with(service(sibling, "id-2"), named), user, of("web", "id-2"), "spec.clusterID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := readers(t, test.objects...)
			for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
				answer := handler{c, c, &leadsTo{}}.Handle(t.Context(), request(t, operation, test.who, test.labels))
				message := ""
				if answer.Result != nil {
					message = answer.Result.Message
				}
				if answer.Allowed != (test.want == "") || !strings.Contains(message, test.want) {
					t.Errorf("%s: allowed: %t, message %q, want %q", operation, answer.Allowed, message, test.want)
				}
			}
		})
	}
}

func TestDeletionIsNeverRefused(t *testing.T) {
	c := readers(t)
	if !(handler{c, c, &leadsTo{}}).Handle(t.Context(), request(t, admissionv1.Delete, user, nil)).Allowed {
		t.Error("a deletion is refused")
	}
}

func TestWithoutAnAnswerAboutTheServiceNothingIsAllowed(t *testing.T) {
	failing := interceptor.NewClient(readers(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("etcd is slow")
		},
	})
	create := request(t, admissionv1.Create, user, of("web", "id-1"))
	answer := handler{failing, failing, &leadsTo{}}.Handle(t.Context(), create)
	if answer.Allowed || answer.Result.Code != http.StatusInternalServerError {
		t.Errorf("got %+v, want an error that the source retries", answer)
	}
}
