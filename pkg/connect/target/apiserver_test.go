package target

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// userHere is the user of this source in an apiServer.
const userHere = "us"

// apiServer is the API server of a target: HTTP before a fake client.
type apiServer struct {
	client.WithWatch

	host   string
	codecs serializer.CodecFactory

	mu sync.Mutex // guards the fields below
	// answers are errors instead of answers, by verb and resource: "list podchaperons", or "list podchaperons shop".
	answers map[string]error
	asked   map[string]int // how often, by the same
}

func schemeOfTargets(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newAPIServer(t *testing.T, objects ...client.Object) *apiServer {
	t.Helper()
	scheme := schemeOfTargets(t)
	s := &apiServer{
		WithWatch: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		codecs:    serializer.NewCodecFactory(scheme),
		answers:   map[string]error{}, asked: map[string]int{},
	}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // Watches go on until then.
	s.host = server.URL
	return s
}

// answer has the API server answer with an error from now on, or answer well again.
func (s *apiServer) answer(request string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[request] = err
}

func (s *apiServer) count(request string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[request]
}

// note returns the error to answer with.
func (s *apiServer) note(verb, resource, namespace string) error {
	request := strings.TrimSpace(verb + " " + resource)
	s.mu.Lock()
	s.asked[request]++
	err := s.answers[request]
	if namespace != "" {
		s.asked[request+" "+namespace]++
		if one, ok := s.answers[request+" "+namespace]; ok {
			err = one
		}
	}
	s.mu.Unlock()
	return err
}

// asking is a request.
type asking struct {
	*http.Request

	kind            schema.GroupVersionKind
	resource        string
	namespace, name string
}

func askingOf(r *http.Request) asking {
	is := asking{Request: r}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "version" {
		is.resource = parts[0]
		return is
	}
	group := schema.GroupVersion{Version: parts[1]}
	parts = parts[1:]
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		group = schema.GroupVersion{Group: parts[0], Version: parts[1]}
		parts = parts[1:]
	}
	if parts = parts[1:]; len(parts) > 2 && parts[0] == "namespaces" {
		is.namespace, parts = parts[1], parts[2:]
	}
	is.resource = parts[0]
	if len(parts) > 1 {
		is.name = parts[1]
	}
	is.kind, _ = newMapper().KindFor(group.WithResource(is.resource))
	return is
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	is := askingOf(r)
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, is)
		return
	}
	object, err := s.do(is)
	if err != nil {
		status := apierrors.APIStatus(nil)
		if !errors.As(err, &status) {
			status = apierrors.NewInternalError(err)
		}
		text := status.Status()
		text.Kind, text.APIVersion = "Status", "v1"
		w.WriteHeader(int(text.Code))
		object = text
	}
	_ = json.NewEncoder(w).Encode(object)
}

func (s *apiServer) do(r asking) (any, error) {
	key := client.ObjectKey{Namespace: r.namespace, Name: r.name}
	switch {
	case r.resource == "version":
		return map[string]string{"gitVersion": "v1.37.0"}, s.note("get", "version", "")
	case r.Method == http.MethodGet && r.name == "":
		if err := s.note("list", r.resource, r.namespace); err != nil {
			return nil, err
		}
		return s.list(r)
	case r.Method == http.MethodGet:
		if err := s.note("get", r.resource, r.namespace); err != nil {
			return nil, err
		}
		object := s.made(r.kind)
		return object, s.typed(object, r.kind, s.Get(r.Context(), key, object))
	case r.Method == http.MethodDelete:
		object := s.made(r.kind)
		object.SetNamespace(r.namespace)
		object.SetName(r.name)
		return metav1.Status{}, errors.Join(s.note("delete", r.resource, r.namespace), s.Delete(r.Context(), object))
	}
	return s.write(r)
}

func (s *apiServer) write(r asking) (any, error) {
	verb, write := "create", func(o client.Object) error { return s.Create(r.Context(), o) }
	if r.Method == http.MethodPut {
		verb, write = "update", func(o client.Object) error { return s.Update(r.Context(), o) }
	}
	if err := s.note(verb, r.resource, r.namespace); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	decoded, _, err := s.codecs.UniversalDeserializer().Decode(text, &r.kind, nil)
	if err != nil {
		return nil, err
	}
	if review, ok := decoded.(*authenticationv1.SelfSubjectReview); ok {
		review.Status.UserInfo.Username = userHere
		return review, s.typed(review, r.kind, nil)
	}
	object := decoded.(client.Object) //nolint:forcetypeassert // All kinds are.
	return object, s.typed(object, r.kind, write(object))
}

// made returns an empty object of a kind.
func (s *apiServer) made(kind schema.GroupVersionKind) client.Object {
	object, err := s.Scheme().New(kind)
	if err != nil {
		panic(err)
	}
	return object.(client.Object) //nolint:forcetypeassert // All kinds are.
}

// typed sets the kind of an object, which a fake client leaves out.
func (*apiServer) typed(object runtime.Object, kind schema.GroupVersionKind, err error) error {
	object.GetObjectKind().SetGroupVersionKind(kind)
	return err
}

func optionsOf(r asking) []client.ListOption {
	of, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	return []client.ListOption{client.InNamespace(r.namespace), client.MatchingLabelsSelector{Selector: of}}
}

func (s *apiServer) list(r asking) (any, error) {
	kind := r.kind.GroupVersion().WithKind(r.kind.Kind + "List")
	object, err := s.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		object = &metav1.PartialObjectMetadataList{}
		object.GetObjectKind().SetGroupVersionKind(kind)
		kind = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")
	}
	list := object.(client.ObjectList) //nolint:forcetypeassert // All kinds are.
	err = s.List(r.Context(), list, optionsOf(r)...)
	list.SetResourceVersion("1")
	return list, s.typed(list, kind, err)
}

// watch sends events until the client goes, after the objects that there are if the client asks for these.
func (s *apiServer) watch(w http.ResponseWriter, r asking) {
	flusher := w.(http.Flusher) //nolint:forcetypeassert // It is one.
	begins := r.URL.Query().Get("sendInitialEvents") != ""
	err := s.note("watch", r.resource, r.namespace)
	if begins {
		err = errors.Join(err, s.note("list", r.resource, r.namespace))
	}
	if err != nil {
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(apierrors.NewForbidden(schema.GroupResource{}, "", err).ErrStatus)
		return
	}
	object, err := s.Scheme().New(r.kind.GroupVersion().WithKind(r.kind.Kind + "List"))
	if err != nil {
		panic(err)
	}
	list := object.(client.ObjectList) //nolint:forcetypeassert // All kinds are.
	events, err := s.Watch(r.Context(), list, optionsOf(r)...)
	if err != nil {
		panic(err)
	}
	defer events.Stop()
	send := func(kind apiwatch.EventType, object runtime.Object) {
		object.GetObjectKind().SetGroupVersionKind(r.kind)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		flusher.Flush()
	}
	if begins {
		s.sendAll(r, list, send)
	}
	flusher.Flush()
	s.noteWatched(r.resource, r.namespace)
	for {
		select {
		case <-r.Context().Done():
			return
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			send(event.Type, event.Object)
		}
	}
}

// sendAll sends the objects that there are, and the end of them.
func (s *apiServer) sendAll(r asking, list client.ObjectList, send func(apiwatch.EventType, runtime.Object)) {
	if err := s.List(r.Context(), list, optionsOf(r)...); err != nil {
		panic(err)
	}
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		send(apiwatch.Added, object)
		return nil
	})
	end := s.made(r.kind)
	end.SetResourceVersion("1")
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	send(apiwatch.Bookmark, end)
}

// noteWatched notes that a watch misses nothing from now on.
func (s *apiServer) noteWatched(resource, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[strings.TrimSpace("watched "+resource+" "+namespace)]++
}

// summaryOf returns the ClusterSummary of a cluster.
func summaryOf(clusterID string) *v1alpha1.ClusterSummary {
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	summary.Status.ClusterID = clusterID
	return summary
}

// grantOf returns the SourceGrant of this source.
func grantOf(changes ...func(*v1alpha1.SourceGrant)) *v1alpha1.SourceGrant {
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(userHere)}}
	for _, change := range changes {
		change(grant)
	}
	return grant
}

// delegated returns a PodChaperon that this source made for a target, as the gate expects it.
func delegated(namespace, target string) *v1alpha1.PodChaperon {
	return stray(target, func(c *v1alpha1.PodChaperon) {
		c.Namespace, c.Name = namespace, translate.DelegateNameOf("web", types.UID("p"))
		c.UID = types.UID("of-" + namespace)
		c.Annotations[v1alpha1.AnnotationParentNamespace] = namespace
	})
}

// boundTo returns the proxy of a PodChaperon that delegated returns.
func boundTo(namespace, node string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: "p"}}
	pod.Spec.NodeName, pod.Spec.SchedulerName = node, v1alpha1.SchedulerName
	return pod
}

// reaching is a loop whose target has an apiServer.
type reaching struct {
	fixture

	server *apiServer
	loop   *loop
	want   want
	life   context.Context //nolint:containedctx // It is that of a fixture.
}

func newReaching(t *testing.T, key types.NamespacedName, objects ...client.Object) *reaching {
	t.Helper()
	r := &reaching{fixture: newFixture(t, http.StatusUnauthorized), server: newAPIServer(t, objects...)}
	r.options.Scheme, r.options.Source.ClusterID = r.server.Scheme(), "c1"
	r.options.Config = &rest.Config{Host: "http://127.0.0.1:1"}
	r.options.APIReader = r.options.Client
	r.want = want{
		fingerprint: "reached", config: &rest.Config{Host: r.server.host}, credentials: "those in Secret a/c2",
	}
	var cancel context.CancelFunc
	r.life, cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	r.loop = newLoop(r.connections, key, r.want, nil)
	t.Cleanup(func() {
		r.loop.disengage()
		cancel()
	})
	return r
}

// remakes makes the loop anew, after a change of the options.
func (r *reaching) remakes() { r.loop = newLoop(r.connections, r.loop.key, r.want, nil) }

// engages puts the target into the registry.
func (r *reaching) engages(t *testing.T) *engagement {
	t.Helper()
	e, err := r.loop.engage(t.Context(), r.life, r.want)
	if err != nil {
		t.Fatal(err)
	}
	r.loop.engaged = e
	return e
}
