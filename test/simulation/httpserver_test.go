package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	jsonpatch "github.com/evanphx/json-patch/v5"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// httpServer is the API server of a cluster, for processes that reach it by HTTP. All objects are in one namespace.
type httpServer struct {
	*cluster

	// simulated are the resources that can change. fixed are the objects of others, which are answered at once.
	simulated []string
	fixed     map[string][]client.Object
	// refuses is the cluster's admission policy. It is called with the object as it was, or as it is to be created.
	refuses func(by *process, q *httpRequest, o client.Object) error
	streams []*stream
	// addresses is how many Services got an address.
	addresses int
	// by is the process whose request is carried out.
	by *process
}

// changing are the resources that can change, with an empty object of each.
func changing(resource string) client.Object {
	switch resource {
	case "services":
		return &corev1.Service{}
	case "endpointslices":
		return &discoveryv1.EndpointSlice{}
	case "ingresses":
		return &networkingv1.Ingress{}
	case "serviceaccounts":
		return &corev1.ServiceAccount{}
	case "configmaps":
		return &corev1.ConfigMap{}
	case "secrets":
		return &corev1.Secret{}
	case "persistentvolumeclaims":
		return &corev1.PersistentVolumeClaim{}
	default:
		return nil
	}
}

// answerFixed answers a request for objects that never change.
func (s *httpServer) answerFixed(q *httpRequest) *http.Response {
	if q.resource == "selfsubjectreviews" || slices.Contains(s.simulated, q.resource) {
		return nil
	}
	if i := slices.IndexFunc(s.fixed[q.resource], func(o client.Object) bool { return o.GetName() == q.name }); i >= 0 {
		return respond(http.StatusOK, q.encoded(s.fixed[q.resource][i]))
	}
	if q.verb != "watch" {
		return respond(http.StatusOK, q.listOf(s.fixed[q.resource], 1))
	}
	body := newWatchBody(q.ctx)
	q.begin(body, s.fixed[q.resource], 1)
	return response(http.StatusOK, body)
}

// serve carries a request out.
func (s *httpServer) serve(q *httpRequest) (*http.Response, error) {
	s.by = q.by
	defer func() { s.by = nil }()
	switch q.verb {
	case "list":
		return respond(http.StatusOK, q.listOf(s.selected(q), s.version)), nil
	case "watch":
		return s.watch(q)
	}
	o, err := s.change(q)
	if err != nil {
		return nil, err
	}
	return respond(http.StatusOK, q.encoded(o)), nil
}

func (s *httpServer) change(q *httpRequest) (client.Object, error) {
	if q.verb == "create" {
		return s.make(q)
	}
	r := q.about()
	before, err := s.get(r)
	if err != nil || q.verb == "get" {
		return before, err
	}
	if err := s.refuses(q.by, q, before); err != nil {
		return nil, err
	}
	switch q.verb {
	case patchVerb:
		return s.patchBy(r, q)
	case "update":
		return s.replace(before, q)
	default:
		options := &metav1.DeleteOptions{}
		if err := json.Unmarshal(q.body, options); err != nil {
			return nil, err
		}
		if len(options.DryRun) > 0 {
			return before, nil
		}
		return before, s.delete(r, &client.DeleteOptions{Preconditions: options.Preconditions})
	}
}

// about returns the object that the request names. It has no kind if that cannot change.
func (q *httpRequest) about() ref {
	o := changing(q.resource)
	if o == nil {
		return ref{}
	}
	return refTo(kindOf(o), q.name)
}

// dry says whether the request is to be answered, and not carried out.
func (q *httpRequest) dry() bool { return q.query.Has("dryRun") }

func (s *httpServer) make(q *httpRequest) (client.Object, error) {
	if q.resource == "selfsubjectreviews" {
		review := &authenticationv1.SelfSubjectReview{}
		review.Status.UserInfo.Username = q.by.name
		return review, nil
	}
	o := changing(q.resource)
	if err := json.Unmarshal(q.body, o); err != nil {
		return nil, err
	}
	o.SetNamespace(namespace)
	err := s.refuses(q.by, q, o)
	switch r := refOf(o); {
	case err == nil && q.dry() && s.objects[r] != nil:
		return nil, apierrors.NewAlreadyExists(resourceOf(r), r.Name)
	case err != nil || q.dry():
		return o, err
	}
	if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
		claim.Finalizers, claim.Status.Phase = []string{claimProtection}, corev1.ClaimPending
	}
	if service, ok := o.(*corev1.Service); ok && service.Spec.ClusterIP == "" {
		s.addresses++
		service.Spec.ClusterIP = fmt.Sprintf("10.96.0.%d", s.addresses)
	}
	return s.create(managed(o))
}

// patchBy applies a JSON patch or a merge patch.
func (s *httpServer) patchBy(r ref, q *httpRequest) (client.Object, error) {
	if q.patch != types.JSONPatchType {
		return s.patch(r, false, q.patch, q.body)
	}
	decoded, err := jsonpatch.DecodePatch(q.body)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(s.objects[r])
	if err != nil {
		return nil, err
	}
	patched, err := decoded.Apply(is)
	if err != nil {
		return nil, invalid(r, err.Error())
	}
	wanted := changing(q.resource)
	if err := json.Unmarshal(patched, wanted); err != nil {
		return nil, err
	}
	if isHeadless(s.objects[r]) != isHeadless(wanted) {
		return nil, invalid(r, "the field is immutable")
	}
	if q.dry() {
		return wanted, nil
	}
	return s.update(s.objects[r], managed(wanted), false)
}

// replace replaces an object as a whole.
func (s *httpServer) replace(before client.Object, q *httpRequest) (client.Object, error) {
	r, wanted := refOf(before), changing(q.resource)
	if err := json.Unmarshal(q.body, wanted); err != nil {
		return nil, err
	}
	switch {
	case wanted.GetUID() != "" && wanted.GetUID() != before.GetUID():
		return nil, conflict(r, "UID")
	case wanted.GetResourceVersion() != "" && wanted.GetResourceVersion() != before.GetResourceVersion():
		return nil, conflict(r, "resourceVersion")
	case immutable(before) && dataOf(wanted) != dataOf(before):
		return nil, invalid(r, "the field is immutable")
	}
	wanted.SetUID(before.GetUID())
	wanted.SetResourceVersion(before.GetResourceVersion())
	wanted.SetCreationTimestamp(before.GetCreationTimestamp())
	wanted.SetNamespace(namespace)
	return s.update(before, wanted, false)
}

func invalid(r ref, why string) error {
	err := apierrors.NewInvalid(schema.GroupKind{Kind: r.kind}, r.Name, nil)
	err.ErrStatus.Message = why
	return err
}

// immutable says whether the data of an object cannot change.
func immutable(o client.Object) bool {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return ptr.Deref(o.Immutable, false)
	case *corev1.Secret:
		return ptr.Deref(o.Immutable, false)
	default:
		return false
	}
}

const dataKey = "version"

// dataOf returns what a copy has in common with its original.
func dataOf(o client.Object) string {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return o.Data[dataKey]
	case *corev1.Secret:
		return string(o.Data[dataKey])
	case *corev1.ServiceAccount:
		return o.ImagePullSecrets[0].Name
	case *corev1.Service:
		return fmt.Sprint(o.Spec.Ports, isHeadless(o), o.Annotations[v1alpha1.AnnotationGlobal])
	case *networkingv1.Ingress:
		return fmt.Sprint(o.Spec.Rules, o.Spec.TLS)
	default:
		return ""
	}
}

// unlabelled says whether an object lacks the mark of a copy of this user.
func unlabelled(o client.Object, user string) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationFollowedBy] != user
}

func (s *httpServer) selected(q *httpRequest) []client.Object {
	kind, selector := kindOf(changing(q.resource)), q.selector()
	return slices.DeleteFunc(sorted(s.objects), func(o client.Object) bool {
		return kindOf(o) != kind || !matches(selector, o)
	})
}

// encoded returns what the answer has of an object.
func (q *httpRequest) encoded(o client.Object) any {
	if q.metadata {
		partial := &metav1.PartialObjectMetadata{}
		partial.Kind, partial.APIVersion = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
		meta := copyOf(o)
		partial.SetNamespace(meta.GetNamespace())
		partial.SetName(meta.GetName())
		partial.SetUID(meta.GetUID())
		partial.SetResourceVersion(meta.GetResourceVersion())
		partial.SetLabels(meta.GetLabels())
		partial.SetAnnotations(meta.GetAnnotations())
		partial.SetDeletionTimestamp(meta.GetDeletionTimestamp())
		return partial
	}
	whole := copyOf(o)
	whole.GetObjectKind().SetGroupVersionKind(q.kind())
	return whole
}

// kind returns the kind of the objects of a request.
func (q *httpRequest) kind() schema.GroupVersionKind {
	switch q.resource {
	case "storageclasses":
		return schema.GroupVersionKind{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"}
	case "selfsubjectreviews":
		return schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "SelfSubjectReview"}
	case "ingresses":
		return networkingv1.SchemeGroupVersion.WithKind("Ingress")
	case "endpointslices":
		return discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")
	}
	if o := changing(q.resource); o != nil {
		return corev1.SchemeGroupVersion.WithKind(kindOf(o))
	}
	return corev1.SchemeGroupVersion.WithKind("Namespace") // The others are asked for by their metadata.
}

func (q *httpRequest) listOf(objects []client.Object, version int) any {
	items := make([]any, len(objects))
	for i, o := range objects {
		items[i] = q.encoded(o)
	}
	kind, apiVersion := q.kind().Kind+"List", q.kind().GroupVersion().String()
	if q.metadata {
		kind, apiVersion = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	return map[string]any{
		"kind": kind, "apiVersion": apiVersion, "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)},
	}
}

// emptyOf returns an object of the kind of a request, for a bookmark.
func (q *httpRequest) bookmark(version int) any {
	kind, apiVersion := q.kind().Kind, q.kind().GroupVersion().String()
	if q.metadata {
		kind, apiVersion = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	}
	return map[string]any{
		"kind": kind, "apiVersion": apiVersion, "metadata": map[string]any{
			"resourceVersion": strconv.Itoa(version),
			"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}
}

func watchEvent(kind string, o any) []byte {
	encoded, err := json.Marshal(map[string]any{"type": kind, "object": o})
	if err != nil {
		panic(fmt.Sprintf("encoding an event: %v", err))
	}
	return append(encoded, '\n')
}
