package wire

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// small are limits for tests: tens of bytes.
func small() *Limits {
	limits := Default()
	limits.Object, limits.Elements = 100, 5
	limits.List, limits.ListElements, limits.ItemElements = 300, 5, 1
	limits.ListTexts = 12
	limits.Objects = func() int64 { return 4 }
	return &limits
}

func TestScanner(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	const bookmark = `{"type":"BOOKMARK","object":{"annotations":{"k8s.io/initial-events-end":"true"}}}`
	for name, test := range map[string]struct {
		text          string
		list, watched bool
		want          string // part of the error
	}{
		"an object":                       {text: `{"a":"` + a(90) + `"}`},
		"an object as large as allowed":   {text: `{"a":"` + a(92) + `"}`},
		"a large object":                  {text: `{"a":"` + a(200) + `"}`, want: "an object of more"},
		"many objects in one answer":      {text: strings.Repeat("{}", 60), want: "an object of more"},
		"white space without end":         {text: strings.Repeat(" ", 101), want: "an object of more"},
		"few elements":                    {text: `{"a":[1,{},[],null,true]}`},
		"many elements":                   {text: `{"a":[1,{},[],null,true,{}]}`, want: "5 elements"},
		"elements in several arrays":      {text: `{"a":[[{},{}],[{},{}]],"b":[{}]}`, want: "5 elements"},
		"many strings and fields":         {text: `{"args":["","","","","","",""],"b":{},"c":1,"d":2,"e":3}`},
		"strings in an array of others":   {text: `{"a":["","","","","",""]}`, want: "5 elements"},
		"strings after those of an array": {text: `{"args":[""],"a":["","","","","",""]}`, want: "5 elements"},
		"others in an array of strings":   {text: `{"args":["",{},{},{},{},{},{}]}`, want: "5 elements"},
		"strings in arrays of arrays":     {text: `{"args":[["","","","","",""]]}`, want: "5 elements"},
		"an escaped key of strings":       {text: `{"\u0061rgs":["","","","","",""]}`, want: "5 elements"},
		"a long key":                      {text: `{"args56789abcdefargs":["","","","","",""]}`, want: "5 elements"},
		"the longest key of strings":      {text: `{"mismatchLabelKeys":["","","","","",""]}`},
		"a key that begins with one of strings": {
			text: `{"bindMountOptionsXY":["","","","","",""]}`, want: "5 elements",
		},
		"an escaped key after one of strings": {
			text: `{"bindMountOptions":[],"\n":["","","","","",""]}`, want: "5 elements",
		},
		"quotes in strings":               {text: `{"a":["x\"[{},{},{},{},{},{},{}"]}`},
		"brackets and commas in strings":  {text: `{"a":["[{},{},{},{},{},{},{}"]}`},
		"a string that ends with a quote": {text: `{"a":["\"[{},{}\\",{}]}`},
		"a list":                          {text: `{"items":[{},{},{},{}]}`, list: true},
		"a list of many objects":          {text: `{"items":[{},{},{},{},{}]}`, list: true, want: "4 objects"},
		"a list of nothing, many times": {
			text: `{"items":[null,null,null,null,null]}`, list: true, want: "4 objects",
		},
		"a long list": {
			text: `{"items":[{"a":"` + a(80) + `"},{"a":"` + a(80) + `"},{"a":"` + a(80) + `"},{"a":"` + a(80) + `"}]}`,
			list: true, want: "a list of more",
		},
		"a list with many elements": {
			text: `{"items":[{"a":[1,2,3]},{"a":[4,5,6]}]}`, list: true, want: "a list with more",
		},
		"a large item": {
			text: `{"items":[{},{"a":"` + a(100) + `"}]}`, list: true, want: "an object of more",
		},
		"an item with many elements": {
			text: `{"items":[{},{"a":[1,2,3,4,5]}]}`, list: true, want: "an object with more",
		},
		"items that are strings": {text: `{"items":["","","","",""]}`, list: true, want: "4 objects"},
		"a list with many keys": {
			text: `{"items":[{"a":{` + strings.Repeat(`"":0,`, 10) + `"":0}}]}`, list: true, want: "12 keys",
		},
		"a list with many strings": {
			text: `{"items":[{"args":[` + strings.Repeat(`"",`, 10) + `""]}]}`, list: true, want: "12 keys",
		},
		"a list with keys and strings": {text: `{"items":[{"a":0,"args":["","",""]},{"b":{}}]}`, list: true},
		"events":                       {text: strings.Repeat(`{"a":"`+a(80)+`"}`+"\n", 20), watched: true},
		"events with elements":         {text: strings.Repeat(`{"a":[1,2,3,4,5]}`, 20), watched: true},
		"a large event":                {text: `{}{"a":"` + a(100) + `"}`, watched: true, want: "an object of more"},
		"a large event with white space": {
			text: "{}{\n" + strings.Repeat("\n", 100) + "}", watched: true, want: "more",
		},
		"an event with many elements": {text: `{}{"a":[1,2,3,4,5,6]}{}`, watched: true, want: "5 elements"},
		"initial events, then others": {
			text: `{}{}{}` + bookmark + strings.Repeat(`{}`, 300), list: true, watched: true,
		},
		"initial events without end": {
			text: strings.Repeat(`{}`, 5), list: true, watched: true, want: "4 objects",
		},
		"many bytes in initial events": {
			text: strings.Repeat(`{"a":"`+a(80)+`"}`, 4), list: true, watched: true, want: "a list of more",
		},
		"a large initial event": {
			text: `{"a":"` + a(100) + `"}`, list: true, watched: true, want: "an object of more",
		},
		"nesting as deep as allowed": {text: strings.Repeat("[", maxDepth), watched: true},
		"deep nesting":               {text: strings.Repeat("[", maxDepth+1), watched: true, want: "nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(test.text)} {
				limits := small()
				if strings.HasPrefix(test.text, "[[[") {
					limits.Object, limits.Elements = 1<<20, 1<<20
				}
				s := &scanner{limits: limits, watched: test.watched}
				if test.list {
					s.list = &total{}
				}
				err := scanIn(s, test.text, size)
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("in parts of %d bytes: %v, want %q", size, err, test.want)
				}
			}
		})
	}
}

// TestListsEndAtTheDefaultLimits has lists that reach a limit with their first part, and exceed it with their second.
func TestListsEndAtTheDefaultLimits(t *testing.T) {
	for name, test := range map[string]struct {
		before              total
		first, second, want string
	}{
		"objects":  {total{items: 20_999}, `{"items":[{}`, `,{}`, "21000 objects"},
		"elements": {total{elements: 499_999}, `{"a":{"b":[1`, `,2`, "500001 elements"},
		"items":    {total{items: 10, elements: 500_999}, `{"a":{"b":[1`, `,2`, "501001 elements"},
		"keys":     {total{texts: 5_999_999}, `{"a":1`, `,"b":2`, "6000000 keys"},
		"strings":  {total{texts: 5_999_998}, `{"args":["",`, `"",`, "6000000 keys and strings"},
		"bytes":    {total{bytes: 160<<20 - 1}, `{`, ` `, "160 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			limits := Default()
			s := &scanner{limits: &limits, list: &test.before}
			if err := s.scan([]byte(test.first)); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			if err := s.scan([]byte(test.second)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("above the limit: %v, want %s", err, test.want)
			}
		})
	}
}

// TestArraysOfStringsAreKnown compares the keys with the types of all objects that a source reads of targets.
func TestArraysOfStringsAreKnown(t *testing.T) {
	seen := map[reflect.Type]bool{}
	checkArrays(t, reflect.TypeFor[corev1.PodSpec](), true, seen) // Tenants of the source write pods.
	for _, object := range []any{
		v1alpha1.PodChaperon{}, v1alpha1.ClusterSummary{}, v1alpha1.SourceGrant{}, corev1.Pod{}, corev1.Service{},
		corev1.ConfigMap{}, corev1.Secret{}, corev1.ServiceAccount{}, corev1.PersistentVolumeClaim{},
		discoveryv1.EndpointSlice{}, networkingv1.Ingress{}, storagev1.StorageClass{}, coordinationv1.Lease{},
		metav1.PartialObjectMetadata{}, metav1.Status{}, authenticationv1.SelfSubjectReview{},
	} {
		checkArrays(t, reflect.TypeOf(object), false, seen)
	}
}

// checkArrays checks the arrays in a type that was not seen before: that those with the keys of strings have strings,
// or numbers, and if all is true, that all others have none.
func checkArrays(t *testing.T, in reflect.Type, all bool, seen map[reflect.Type]bool) {
	t.Helper()
	switch in.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		checkArrays(t, in.Elem(), all, seen)
		return
	case reflect.Struct:
	default:
		return
	}
	if seen[in] {
		return
	}
	seen[in] = true
	for i := range in.NumField() {
		field := in.Field(i)
		checkArrays(t, field.Type, all, seen)
		if field.Type.Kind() != reflect.Slice {
			continue
		}
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		of, known := field.Type.Elem().Kind(), isStrings([]byte(key))
		if known && of != reflect.String && of != reflect.Int32 || all && !known && of == reflect.String {
			t.Errorf("%s.%s has elements of kind %s; is it known as one of strings: %t", in, key, of, known)
		}
	}
}

// scanIn scans the text in parts of this size.
func scanIn(s *scanner, text string, size int) error {
	for len(text) > 0 {
		n := min(size, len(text))
		if err := s.scan([]byte(text[:n])); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{
		"short":                      "short",
		strings.Repeat("b", 64):      strings.Repeat("b", 64),
		"two\nlines\x1b[31m":         "two lines[31m",
		strings.Repeat("a", 1000):    strings.Repeat("a", 61) + "...",
		strings.Repeat("ä", 60):      strings.Repeat("ä", 30) + "...",
		"\u202eright to left\u2066":  "right to left",
		strings.Repeat("\x00", 1<<8): "",
	} {
		if got := Shorten(text, 64); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCollectionsAreRecognised(t *testing.T) {
	for path, want := range map[string]bool{
		"/api/v1/namespaces":                            true,
		"/api/v1/namespaces/a":                          false,
		"/api/v1/namespaces/a/services":                 true,
		"/api/v1/namespaces/a/services/b":               false,
		"/api/v1/namespaces/a/pods/b/log":               false,
		"/api/v1/services":                              true,
		"/apis/g/v1/podchaperons":                       true,
		"/apis/g/v1/namespaces/a/podchaperons":          true,
		"/apis/g/v1/namespaces/a/podchaperons/b/status": false,
		"/apis/g/v1/clustersummaries/singleton":         false,
		"/version":                                      false,
		"/":                                             false,
		"/api":                                          false,
		"/api/v1":                                       false,
		"/apis":                                         false,
		"/apis/g":                                       false,
		"/apis/g/v1":                                    false,
		"/debug/a/b/c":                                  false,
		"/apis/multicluster.admiralty.io/v1alpha1/things": true,
	} {
		if got := isCollection(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}

func TestRequestsAreClassified(t *testing.T) {
	const path = "/clusters/c2/api/v1/pods"
	for query, want := range map[string]request{
		"watch=true":                      {watch: true},
		"watch=1&sendInitialEvents=true":  {watch: true, initial: true},
		"watch=1&sendInitialEvents=false": {watch: true},
		"watch=false&labelSelector=a":     {list: path + "?a&"},
		"watch=perhaps&fieldSelector=a":   {list: path + "?&a"},
		"limit=2":                         {list: path + "?&", paged: true},
		"continue=more":                   {list: path + "?&", paged: true, continued: true},
	} {
		r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path, RawQuery: query}}
		if got := requestOf(r, "/clusters/c2/"); got != want {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
		r.Method = http.MethodDelete
		if got := requestOf(r, "/clusters/c2"); got != (request{}) {
			t.Errorf("deleting with %s: %+v", query, got)
		}
	}
}
