package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
)

const (
	// Path is where the webhook is served.
	Path = "/validate-endpointslices"

	// readTimeout is less than the API server's patience with a webhook.
	readTimeout = 5 * time.Second

	onlyCopies = "a source cluster may write endpoints only of Services that it copied: "
)

// Addresses decides where EndpointSlices of sources may lead. See addresses.Endpoints.
type Addresses interface {
	Wait(ctx context.Context) error
	Check(slice, before *discoveryv1.EndpointSlice) *addresses.RefusedError
}

// Register serves the webhook at Path. The first reader reads (Cluster)Sources, perhaps from a cache. The live reader
// reads Services from the API server.
func Register(server webhook.Server, sources, live client.Reader, leadsTo Addresses) {
	server.Register(Path, &webhook.Admission{Handler: handler{sources: sources, live: live, leadsTo: leadsTo}})
}

// handler allows an EndpointSlice if its Service is a copy of the same source, and its addresses are nobody else's.
// Otherwise it says why not.
type handler struct {
	sources, live client.Reader
	leadsTo       Addresses
}

// Handle implements admission.Handler.
func (h handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create && req.Operation != admissionv1.Update {
		return admission.Allowed("")
	}
	slice, before, err := decode(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	objection, err := h.objection(ctx, slice, req.UserInfo.Username)
	if err == nil && objection == "" {
		objection, err = h.objectionToAddresses(ctx, slice, before)
	}
	switch {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case objection != "":
		return admission.Denied(objection)
	default:
		return admission.Allowed("")
	}
}

// decode returns the EndpointSlice, and what it was before. If it is new, that is nil.
func decode(req admission.Request) (slice, before *discoveryv1.EndpointSlice, err error) {
	slice = &discoveryv1.EndpointSlice{}
	if err := json.Unmarshal(req.Object.Raw, slice); err != nil {
		return nil, nil, fmt.Errorf("decoding the EndpointSlice: %w", err)
	}
	slice.Namespace = req.Namespace
	if len(req.OldObject.Raw) == 0 {
		return slice, nil, nil
	}
	before = &discoveryv1.EndpointSlice{}
	if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
		return nil, nil, fmt.Errorf("decoding the EndpointSlice as it is now: %w", err)
	}
	return slice, before, nil
}

// objectionToAddresses returns the reason why a source may not add the addresses. It is empty if there is none.
func (h handler) objectionToAddresses(
	ctx context.Context, slice, before *discoveryv1.EndpointSlice,
) (string, error) {
	if err := h.leadsTo.Wait(ctx); err != nil {
		return "", fmt.Errorf("waiting until all addresses that this cluster uses are known: %w", err)
	}
	if refused := h.leadsTo.Check(slice, before); refused != nil {
		return "endpoints of a source cluster may lead to pods of other clusters only: " + refused.Error(), nil
	}
	return "", nil
}

// objection returns the reason why the user may not write the EndpointSlice. It is empty if there is none.
func (h handler) objection(ctx context.Context, slice *discoveryv1.EndpointSlice, user string) (string, error) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return onlyCopies + "the EndpointSlice names no Service: label it with " + discoveryv1.LabelServiceName, nil
	}
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	err := h.live.Get(ctx, client.ObjectKey{Namespace: slice.Namespace, Name: name}, service)
	if apierrors.IsNotFound(err) {
		const text = onlyCopies + "namespace %q has no Service %q: write the Service first"
		return fmt.Sprintf(text, slice.Namespace, name), nil
	}
	if err != nil {
		return "", fmt.Errorf("getting the Service of the EndpointSlice: %w", err)
	}
	return h.objectionTo(ctx, service, slice.Labels[v1alpha1.LabelParentClusterID], user)
}

// objectionTo returns the reason why the user may not write endpoints of the Service for a source cluster.
func (h handler) objectionTo(ctx context.Context, service client.Object, clusterID, user string) (string, error) {
	copiedBy := service.GetAnnotations()[v1alpha1.AnnotationFollowedBy]
	what := fmt.Sprintf("Service %q in namespace %q", service.GetName(), service.GetNamespace())
	if copiedBy == "" || clusterID == "" || service.GetLabels()[v1alpha1.LabelParentClusterID] != clusterID {
		return onlyCopies + what + " is not a copy of this source cluster's: rename one of the two Services, or " +
			"delete that one", nil
	}
	if copiedBy == user {
		return "", nil
	}
	named, err := h.isNamed(ctx, user, clusterID, service.GetNamespace())
	if err != nil || named {
		return "", err
	}
	return fmt.Sprintf(onlyCopies+"%s is a copy of user %q, and you are %q: if both are users of one source cluster, "+
		"set spec.clusterID to %q in your ClusterSource or Source", what, copiedBy, user, clusterID), nil
}
