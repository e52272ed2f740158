package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	version = "v1.37.1"
	// user is the name of the source in all targets.
	user = "simulated"
	// longest is the duration of a watch whose client does not name one.
	longest = time.Hour
)

// simulated answers as a target's API server does, for the objects in the store. Nothing else happens in such a target:
// it has no controllers, no admission but the policy of our chart, and no authorization.
type simulated struct {
	*store
	log *log
}

// asked is a request for objects.
type asked struct {
	*http.Request
	*request.RequestInfo
	kind schema.GroupVersionKind
}

func (q asked) key() types.NamespacedName {
	return types.NamespacedName{Namespace: q.Namespace, Name: q.Name}
}

// ServeHTTP answers a request, and counts it.
func (s simulated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	paths := request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	info, err := paths.NewRequestInfo(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	counted := s.log.counted(info, w, r)
	if !info.IsResourceRequest {
		if body := discovery(r.URL.Path); body != nil {
			answer(counted, body)
			return
		}
		s.refuse(counted, r)
		return
	}
	version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	kind := kinds()[version][info.Resource]
	q := asked{r, info, version.WithKind(kind)}
	switch {
	case kind == "" || q.Subresource != "":
		s.refuse(counted, r)
	case q.Verb == "list" || q.Verb == "watch":
		s.show(counted, q)
	default:
		s.carryOut(counted, q)
	}
}

// refuse answers a request that is not simulated.
func (s simulated) refuse(w http.ResponseWriter, r *http.Request) {
	s.log.unexpected(r)
	fail(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method,
		schema.GroupResource{}, r.URL.Path, "not simulated", 0, true))
}

func fail(w http.ResponseWriter, err error) {
	status := apierrors.NewInternalError(err).Status()
	if known := apierrors.APIStatus(nil); errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // A client that left needs no answer.
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	_ = json.NewEncoder(w).Encode(body) // A client that left needs no answer.
}

// carryOut answers a request for one object.
func (s simulated) carryOut(w http.ResponseWriter, q asked) {
	var result any
	body, err := io.ReadAll(q.Body)
	if err == nil {
		switch q.Verb {
		case "create":
			result, err = s.create(q, body)
		case "get":
			result, err = s.find(q)
		case "update", "patch":
			result, err = s.change(q, body)
		case "delete":
			result, err = s.delete(q, body)
		default:
			err = fmt.Errorf("the simulation does not know the verb %s", q.Verb)
		}
	}
	if err != nil {
		fail(w, err)
		return
	}
	if o, ok := result.(*object); ok {
		result = q.shown(o)
	}
	answer(w, result)
}

// shown returns the object, or its metadata if the client asks for these.
func (q asked) shown(o *object) any {
	if !strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata") {
		return o.json
	}
	m := o.PartialObjectMetadata
	m.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()}
	return m
}

func (q asked) resource() schema.GroupResource {
	return schema.GroupResource{Group: q.APIGroup, Resource: q.Resource}
}

func (s simulated) find(q asked) (*object, error) {
	if o := s.get(q.Resource, q.key()); o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(q.resource(), q.Name)
}

// decode reads an object, in JSON or in the protobuf of built-in kinds.
func (q asked) decode(body []byte) (map[string]any, error) {
	var content map[string]any
	if !strings.Contains(q.Header.Get("Content-Type"), "protobuf") {
		return content, json.Unmarshal(body, &content)
	}
	typed, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err == nil {
		(&unstructured.Unstructured{Object: content}).SetGroupVersionKind(q.kind)
	}
	return content, err
}

func (s simulated) create(q asked, body []byte) (any, error) {
	content, err := q.decode(body)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if q.Resource == "selfsubjectreviews" {
		return content, unstructured.SetNestedField(content, user, "status", "userInfo", "username")
	}
	if q.URL.Query().Has("dryRun") {
		return content, s.admit(q, u)
	}
	u.SetNamespace(q.Namespace)
	if u.GetName() == "" {
		u.SetName(fmt.Sprintf("%s%d", u.GetGenerateName(), time.Now().UnixNano()))
	}
	u.SetCreationTimestamp(metav1.Now())
	o, err := s.put(q.Resource, nil, content)
	if err == nil && o == nil {
		err = apierrors.NewAlreadyExists(q.resource(), u.GetName())
	}
	return o, err
}

// admit refuses what the admission policy of our chart refuses to a source: copies without the mark.
func (s simulated) admit(q asked, u *unstructured.Unstructured) error {
	if slices.Contains([]string{"configmaps", "secrets"}, q.Resource) &&
		u.GetAnnotations()[v1alpha1.AnnotationFollowedBy] != user {
		return apierrors.NewForbidden(q.resource(), u.GetName(),
			errors.New("objects of sources have the annotation "+v1alpha1.AnnotationFollowedBy))
	}
	return nil
}

// change replaces or patches an object. It keeps the UID and the resource version in the request, if there are any, as
// preconditions.
func (s simulated) change(q asked, body []byte) (any, error) {
	seen, err := s.find(q)
	if err != nil {
		return nil, err
	}
	is := body
	switch types.PatchType(q.Header.Get("Content-Type")) {
	case types.MergePatchType:
		is, err = jsonpatch.MergePatch(seen.json, body)
	case types.JSONPatchType:
		var patch jsonpatch.Patch
		if patch, err = jsonpatch.DecodePatch(body); err == nil {
			is, err = patch.Apply(seen.json)
		}
	}
	if err != nil {
		return nil, apierrors.NewInvalid(q.kind.GroupKind(), q.Name, nil)
	}
	content, err := q.decode(is)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if u.GetUID() == "" {
		u.SetUID(seen.UID)
		u.SetCreationTimestamp(seen.CreationTimestamp)
	}
	if u.GetUID() != seen.UID || u.GetResourceVersion() != "" && u.GetResourceVersion() != seen.ResourceVersion {
		return nil, q.conflict()
	}
	o, err := s.put(q.Resource, seen, content)
	if err == nil && o == nil {
		err = q.conflict()
	}
	return o, err
}

func (q asked) conflict() error {
	return apierrors.NewConflict(q.resource(), q.Name, errors.New("the object is another one"))
}

func (s simulated) delete(q asked, body []byte) (any, error) {
	seen, err := s.find(q)
	if err != nil {
		return nil, err
	}
	options := metav1.DeleteOptions{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, err
		}
	}
	if only := options.Preconditions; only != nil && (only.UID != nil && *only.UID != seen.UID ||
		only.ResourceVersion != nil && *only.ResourceVersion != seen.ResourceVersion) {
		return nil, q.conflict()
	}
	if !s.remove(q.Resource, seen) {
		return nil, q.conflict()
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess}, nil
}

// show answers with a list, or with a watch.
func (s simulated) show(w http.ResponseWriter, q asked) {
	query := q.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		fail(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	of := selector{resource: q.Resource, namespace: q.Namespace, labels: byLabel, fields: byField}
	if q.Verb == "watch" {
		s.stream(w, q, of)
		return
	}
	objects, at := s.list(of)
	items := make([]any, 0, len(objects))
	for _, o := range objects {
		items = append(items, q.shown(o))
	}
	kind, group := q.kind.Kind+"List", q.kind.GroupVersion().String()
	if strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata") {
		kind, group = "PartialObjectMetadataList", metav1.SchemeGroupVersion.String()
	}
	answer(w, map[string]any{
		"kind": kind, "apiVersion": group, "items": items,
		"metadata": map[string]string{"resourceVersion": strconv.Itoa(at)},
	})
}

// stream answers with the changes of the selected objects, until the client leaves or its time is over.
func (s simulated) stream(w http.ResponseWriter, q asked, of selector) {
	query := q.URL.Query()
	initial := strings.EqualFold(query.Get("sendInitialEvents"), "true")
	since := 0
	if !initial {
		since, _ = strconv.Atoi(query.Get("resourceVersion")) // Without one, a watch begins with all objects.
	}
	s.log.watching(q.Resource, 1)
	defer s.log.watching(q.Resource, -1)
	watcher, at := s.watch(of, since)
	defer s.end(watcher)
	lasts := longest
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil {
		lasts = time.Duration(seconds) * time.Second
	}
	timer := time.NewTimer(lasts)
	defer timer.Stop()
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	encoder := json.NewEncoder(w)
	for {
		for _, c := range watcher.take() { // A client that left ends the context.
			_ = encoder.Encode(map[string]any{"type": c.what, "object": q.shown(c.object)})
		}
		if initial {
			_ = encoder.Encode(q.bookmark(at))
			initial = false
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-watcher.news:
		case <-timer.C:
			return
		case <-q.Context().Done():
			return
		}
	}
}

// bookmark ends the objects that a watch begins with.
func (q asked) bookmark(at int) any {
	kind, group := q.kind.Kind, q.kind.GroupVersion().String()
	if strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata") {
		kind, group = "PartialObjectMetadata", metav1.SchemeGroupVersion.String()
	}
	return map[string]any{"type": watch.Bookmark, "object": map[string]any{
		"kind": kind, "apiVersion": group, "metadata": map[string]any{
			"resourceVersion": strconv.Itoa(at),
			"annotations":     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}}
}
