package wire

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// request is how much a request may return.
type request struct {
	watch     bool
	initial   bool   // a watch that begins with the objects that exist
	list      string // names the list, the same for all its pages; empty for other requests
	paged     bool
	continued bool // not the first page
}

// requestOf classifies a request to an API server whose paths begin with base.
func requestOf(r *http.Request, base string) request {
	if r.Method != http.MethodGet {
		return request{}
	}
	query := r.URL.Query()
	if isTrue(query, "watch") {
		return request{watch: true, initial: isTrue(query, "sendInitialEvents")}
	}
	if !isCollection(strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(base, "/"))) {
		return request{}
	}
	return request{
		list:      r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector"),
		paged:     query.Has("limit") || query.Has("continue"),
		continued: query.Get("continue") != "",
	}
}

func isTrue(query url.Values, key string) bool {
	value, err := strconv.ParseBool(query.Get(key))
	return value && err == nil
}

// isCollection says whether a path is that of all objects of a kind, in a namespace or in all:
// /api/v1[/namespaces/NAMESPACE]/RESOURCE or /apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE.
func isCollection(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	return len(parts) == 1
}
