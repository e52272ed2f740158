package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apiServer is the source's API server, as the scheduler reaches it by HTTP, without a network. It has pods, nodes and
// namespaces, and empty lists of everything else.
type apiServer struct {
	*store

	// conditions is how often a pod got another condition.
	conditions atomic.Int64
}

// config returns a configuration that leads to the server.
func (s *apiServer) config() *rest.Config { return &rest.Config{Host: "http://source", Transport: s} }

// kept are the kinds that the server has.
func kept(resource string) client.Object {
	switch resource {
	case "pods":
		return &corev1.Pod{}
	case "nodes":
		return &corev1.Node{}
	case "namespaces":
		return &corev1.Namespace{}
	default:
		return nil
	}
}

// request is a request for objects of one resource.
type request struct {
	*http.Request

	version             schema.GroupVersion
	namespace, resource string
	name, subresource   string
	query               url.Values
}

func read(r *http.Request) request {
	q := request{Request: r, query: r.URL.Query()}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if path[0] == "api" {
		q.version, path = schema.GroupVersion{Version: path[1]}, path[2:]
	} else {
		q.version, path = schema.GroupVersion{Group: path[1], Version: path[2]}, path[3:]
	}
	if path[0] == "namespaces" && len(path) > 2 {
		q.namespace, path = path[1], path[2:]
	}
	path = append(path, "", "")
	q.resource, q.name, q.subresource = path[0], path[1], path[2]
	return q
}

// kind returns the kind of the objects of the resource.
func (q request) kind() string {
	for kind := range scheme.Scheme.KnownTypes(q.version) {
		if plural, _ := meta.UnsafeGuessKindToResource(q.version.WithKind(kind)); plural.Resource == q.resource {
			return kind
		}
	}
	return ""
}

// RoundTrip answers a request.
func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	q := read(r)
	if !pause(r.Context(), requestTime) {
		return nil, r.Context().Err()
	}
	switch {
	case q.Method == http.MethodGet && q.query.Get("watch") != "":
		return respond(s.stream(q)), nil
	case q.Method == http.MethodGet && q.name == "":
		return answer(s.list(q))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	switch {
	case q.resource == "events":
		return respond(io.NopCloser(bytes.NewReader(body))), nil
	case q.subresource == "binding":
		return answer(s.bind(q, body))
	case q.Method == http.MethodPatch && q.resource == "pods":
		s.conditions.Add(1)
		return answer(s.patchPod(q, body))
	}
	return nil, fmt.Errorf("the simulation does not offer %s %s", r.Method, r.URL)
}

func respond(body io.ReadCloser) *http.Response {
	header := http.Header{"Content-Type": {runtime.ContentTypeJSON}}
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, Header: header, Body: body}
}

func answer(content any, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return respond(io.NopCloser(bytes.NewReader(encoded))), nil
}

func (q request) ref() ref {
	return ref{reflect.TypeOf(kept(q.resource)), types.NamespacedName{Namespace: q.namespace, Name: q.name}}
}

func (s *apiServer) bind(q request, body []byte) (any, error) {
	decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	binding, ok := decoded.(*corev1.Binding)
	if !ok {
		return nil, fmt.Errorf("a binding is a %T", decoded)
	}
	_, err = s.update(q.ref(), func(o client.Object) bool { return bindTo(o, binding.Target.Name) })
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"}, err
}

// bindTo binds a pod to a node.
func bindTo(o client.Object, node string) bool {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != "" {
		return false
	}
	pod.Spec.NodeName = node
	setScheduled(pod, corev1.PodCondition{Status: corev1.ConditionTrue})
	return true
}

// setScheduled sets the condition PodScheduled.
func setScheduled(pod *corev1.Pod, c corev1.PodCondition) {
	c.Type = corev1.PodScheduled
	pod.Status.Conditions = slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled
	})
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

func (s *apiServer) patchPod(q request, body []byte) (any, error) {
	var failed error
	pod, err := s.update(q.ref(), func(o client.Object) bool {
		was, err := json.Marshal(o)
		if err != nil {
			failed = err
			return false
		}
		is, err := strategicpatch.StrategicMergePatch(was, body, o)
		if err == nil {
			*o.(*corev1.Pod) = corev1.Pod{}
			err = json.Unmarshal(is, o)
		}
		failed = err
		return err == nil
	})
	if err == nil {
		err = failed
	}
	return encoded(q.version.WithKind("Pod"), pod), err
}

// encoded adds the kind to an object, which clients know by it.
func encoded(kind schema.GroupVersionKind, o client.Object) client.Object {
	if o == nil || reflect.ValueOf(o).IsNil() {
		return nil
	}
	o = copyOf(o)
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o
}

// list returns the objects that the request selects, and the version of the list.
func (s *apiServer) list(q request) (any, error) {
	kind, selects, items := q.kind(), q.selector(), []client.Object{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for r, o := range s.objects {
		if r.kind == reflect.TypeOf(kept(q.resource)) && selects(o) {
			items = append(items, encoded(q.version.WithKind(kind), o))
		}
	}
	return map[string]any{
		"kind": kind + "List", "apiVersion": q.version.String(), "items": items,
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)},
	}, nil
}

// selector returns what the selectors of a request select.
func (q request) selector() func(client.Object) bool {
	byLabel, err := labels.Parse(q.query.Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	byField, err := fields.ParseSelector(q.query.Get("fieldSelector"))
	if err != nil {
		panic(err)
	}
	return func(o client.Object) bool {
		of := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
		if pod, ok := o.(*corev1.Pod); ok {
			of["spec.schedulerName"], of["spec.nodeName"] = pod.Spec.SchedulerName, pod.Spec.NodeName
			of["status.phase"] = string(pod.Status.Phase)
		}
		return byLabel.Matches(labels.Set(o.GetLabels())) && byField.Matches(of)
	}
}
