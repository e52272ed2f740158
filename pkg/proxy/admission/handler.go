package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/amounts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Path is where the webhook is served.
const Path = "/mutate-pods"

// Register serves the webhook at Path. The reader is that of Handler.
func Register(server webhook.Server, reader client.Reader) {
	server.Register(Path, &webhook.Admission{Handler: Handler{Reader: reader}})
}

// Handler answers the creation of an elected pod with the patch that makes it a proxy, or denies it as invalid with a
// message that names the fields. Everything else is allowed unchanged.
type Handler struct {
	// Reader reads StorageClasses of this cluster, for pods with generic ephemeral volumes.
	Reader client.Reader
}

// Handle implements admission.Handler.
func (h Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" {
		return admission.Allowed("")
	}
	// An API server has decoded the pod. Others may ask, too, and decoding some amounts ends a process.
	if err := amounts.Check(req.Object.Raw); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	pod := &corev1.Pod{}
	unknown, err := kjson.UnmarshalStrict(req.Object.Raw, pod, kjson.DisallowUnknownFields)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the pod: %w", err))
	}
	if !translate.Elected(pod) {
		return admission.Allowed("")
	}
	proxy, err := translate.Proxy(pod)
	if err != nil {
		log.FromContext(ctx).V(1).Info("Elected pod is invalid", "reason", err.Error())
		return denied(pod, err)
	}
	switch errs, err := h.ephemeralVolumes(ctx, pod); {
	case err != nil:
		return admission.Errored(http.StatusInternalServerError, err)
	case len(errs) > 0:
		return denied(pod, errs.ToAggregate())
	}
	operations, err := proxyOperations(req.Object.Raw, pod, proxy)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("making the patch of the pod: %w", err))
	}
	response := admission.Patched("", operations...)
	fence, _ := translate.Fence(proxy.Annotations[v1alpha1.AnnotationFenceAfter]) // It is valid.
	if problem, _ := translate.FenceProblem(proxy, fence); problem != "" {
		response = response.WithWarnings(problem)
	}
	if translate.WithoutGrace(pod) {
		response = response.WithWarnings("spec.terminationGracePeriodSeconds is 1 and not 0, so that this pod is " +
			"there until its containers in the target have ended")
	}
	if fields := unknownFields(unknown); len(fields) > 0 {
		response = response.WithWarnings("the delegate of this pod lacks fields that this version of the " +
			"multicluster scheduler does not know, because the Kubernetes of this cluster is newer: " +
			strings.Join(fields, ", "))
	}
	return response
}

// maxUnknown is how many unknown fields a warning names.
const maxUnknown = 8

// unknownFields returns the fields of the spec among those that the decoder does not know.
func unknownFields(strict []error) []string {
	var fields []string
	for _, err := range strict {
		var at kjson.FieldError
		if errors.As(err, &at) && strings.HasPrefix(at.FieldPath(), "spec.") && len(fields) < maxUnknown {
			fields = append(fields, at.FieldPath())
		}
	}
	return fields
}

// denied answers as the API server itself does for an invalid pod.
func denied(pod *corev1.Pod, err error) admission.Response {
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	var fields field.ErrorList
	for _, err := range aggregate.Errors() {
		var fieldErr *field.Error
		if errors.As(err, &fieldErr) {
			fields = append(fields, fieldErr)
		}
	}
	name := pod.Name
	if name == "" {
		name = pod.GenerateName
	}
	status := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), name, fields).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}
