package wire

import (
	"strings"
	"testing"
)

// small are limits for tests: tens of bytes.
func small() *Limits {
	limits := Default()
	limits.Object, limits.Elements = 100, 5
	limits.List, limits.ListElements, limits.ItemElements = 300, 5, 1
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
		"a large object":                  {text: `{"a":"` + a(200) + `"}`, want: "an object of more"},
		"many objects in one answer":      {text: strings.Repeat("{}", 60), want: "an object of more"},
		"white space without end":         {text: strings.Repeat(" ", 101), want: "an object of more"},
		"few elements":                    {text: `{"a":[1,{},[],null,true]}`},
		"many elements":                   {text: `{"a":[1,{},[],null,true,{}]}`, want: "5 elements"},
		"elements in several arrays":      {text: `{"a":[[{},{}],[{},{}]],"b":[{}]}`, want: "5 elements"},
		"many strings and fields":         {text: `{"a":["","","","","","",""],"b":{},"c":1,"d":2,"e":3,"f":{}}`},
		"brackets and commas in strings":  {text: `{"a":["[{},{},{},{},{},{},{}"]}`},
		"a string that ends with a quote": {text: `{"a":["\"[{},{}\\",{}]}`},
		"a list":                          {text: `{"items":[{},{},{},{}]}`, list: true},
		"a list of many objects":          {text: `{"items":[{},{},{},{},{}]}`, list: true, want: "4 objects"},
		"a list of nothing, many times": {
			text: `{"items":[null,null,null,null,null]}`, list: true, want: "4 objects",
		},
		"a long list": {
			text: `{"items":[{"a":"` + a(300) + `"}]}`, list: true, want: "a list of more",
		},
		"a list with many elements": {
			text: `{"items":[{"a":[1,2,3,4,5,6]}]}`, list: true, want: "a list with more",
		},
		"events":               {text: strings.Repeat(`{"a":"`+a(80)+`"}`+"\n", 20), watched: true},
		"events with elements": {text: strings.Repeat(`{"a":[1,2,3,4,5]}`, 20), watched: true},
		"a large event":        {text: `{}{"a":"` + a(100) + `"}`, watched: true, want: "an object of more"},
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
		"deep nesting": {text: strings.Repeat("[", maxDepth+1), watched: true, want: "nested too deeply"},
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
		"/api/v1/namespaces":                              true,
		"/api/v1/namespaces/a":                            false,
		"/api/v1/namespaces/a/services":                   true,
		"/api/v1/namespaces/a/services/b":                 false,
		"/api/v1/namespaces/a/pods/b/log":                 false,
		"/api/v1/services":                                true,
		"/apis/g/v1/podchaperons":                         true,
		"/apis/g/v1/namespaces/a/podchaperons":            true,
		"/apis/g/v1/namespaces/a/podchaperons/b/status":   false,
		"/apis/g/v1/clustersummaries/singleton":           false,
		"/version":                                        false,
		"/":                                               false,
		"/api":                                            false,
		"/apis/multicluster.admiralty.io/v1alpha1/things": true,
	} {
		if got := isCollection(path); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}
