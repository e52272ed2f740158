package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	version         = "v1.37.1"
	resourceVersion = "1000"
	groupPath       = "/apis/" + v1alpha1.GroupName + "/v1alpha1"
	// longest is the duration of a watch whose client does not name one.
	longest = time.Hour
)

// content is the objects of one simulated target, as JSON.
type content struct {
	Summary   json.RawMessage   `json:"summary"`
	Chaperons []json.RawMessage `json:"chaperons"`
}

// state summarizes the requests to the simulated targets.
type state struct {
	// Watches is the number of open watches of PodChaperons.
	Watches int `json:"watches"`
	// Unexpected requests are not simulated, and were answered with an error.
	Unexpected []string `json:"unexpected"`
}

// log collects the state of all targets. It is safe for concurrent use.
type log struct {
	mu    sync.Mutex // guards state
	state state
}

func (l *log) watching(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Watches += n
}

func (l *log) unexpected(r *http.Request) {
	const most = 20
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.state.Unexpected) < most {
		l.state.Unexpected = append(l.state.Unexpected, r.Method+" "+r.URL.String())
	}
}

// ServeHTTP answers with the state.
func (l *log) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer(w, l.state)
}

// simulated answers as a target's API server does. Its objects never change, and it takes no writes.
type simulated struct {
	content
	log *log
}

func (s simulated) handler() http.Handler {
	mux := http.NewServeMux()
	for path, body := range map[string]any{
		"/version":                    map[string]string{"major": "1", "minor": "37", "gitVersion": version},
		"/api":                        metav1.APIVersions{TypeMeta: typeMeta("APIVersions"), Versions: []string{"v1"}},
		"/apis":                       groups(),
		"/apis/" + v1alpha1.GroupName: group(),
		groupPath:                     resources(),
		groupPath + "/clustersummaries/" + v1alpha1.ClusterSummaryName: s.Summary,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { answer(w, body) })
	}
	mux.HandleFunc("GET "+groupPath+"/clustersummaries", func(w http.ResponseWriter, r *http.Request) {
		collection{"ClusterSummary", []json.RawMessage{s.Summary}}.serve(w, r)
	})
	mux.HandleFunc("GET "+groupPath+"/podchaperons", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			s.log.watching(1)
			defer s.log.watching(-1)
		}
		collection{"PodChaperon", s.Chaperons}.serve(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.log.unexpected(r)
		w.WriteHeader(http.StatusNotFound)
		answer(w, metav1.Status{TypeMeta: typeMeta("Status"), Status: metav1.StatusFailure,
			Message: "not simulated", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	})
	return mux
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // A client that left needs no answer.
}

func typeMeta(kind string) metav1.TypeMeta { return metav1.TypeMeta{Kind: kind, APIVersion: "v1"} }

func groups() metav1.APIGroupList {
	return metav1.APIGroupList{TypeMeta: typeMeta("APIGroupList"), Groups: []metav1.APIGroup{group()}}
}

func group() metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.GroupVersion.String(), Version: "v1alpha1"}
	return metav1.APIGroup{
		TypeMeta: typeMeta("APIGroup"), Name: v1alpha1.GroupName,
		Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
	}
}

func resources() metav1.APIResourceList {
	verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}
	return metav1.APIResourceList{
		TypeMeta: typeMeta("APIResourceList"), GroupVersion: v1alpha1.GroupVersion.String(),
		APIResources: []metav1.APIResource{
			{Name: "podchaperons", SingularName: "podchaperon", Namespaced: true, Kind: "PodChaperon", Verbs: verbs},
			{Name: "clustersummaries", SingularName: "clustersummary", Kind: "ClusterSummary", Verbs: verbs},
		},
	}
}

// collection is the objects of one kind.
type collection struct {
	kind  string
	items []json.RawMessage
}

func (c collection) serve(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if query.Get("watch") == "" {
		answer(w, map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": c.kind + "List",
			"metadata": map[string]string{"resourceVersion": resourceVersion}, "items": c.items,
		})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.EqualFold(query.Get("sendInitialEvents"), "true") {
		c.initial(w)
	}
	_ = http.NewResponseController(w).Flush()
	lasts := longest
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil {
		lasts = time.Duration(seconds) * time.Second
	}
	timer := time.NewTimer(lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// initial begins a watch with the objects that exist, and the bookmark that ends them.
func (c collection) initial(w http.ResponseWriter) {
	for _, item := range c.items {
		fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n", item)
	}
	const bookmark = `{"type":"BOOKMARK","object":{"apiVersion":%q,"kind":%q,` +
		`"metadata":{"resourceVersion":%q,"annotations":{%q:"true"}}}}` + "\n"
	fmt.Fprintf(w, bookmark,
		v1alpha1.GroupVersion.String(), c.kind, resourceVersion, metav1.InitialEventsAnnotationKey)
}
