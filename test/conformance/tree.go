package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// tree is what was seen of a case, as decoded JSON.
type tree = map[string]any

// treeOf converts an object to a tree.
func treeOf(object any) (tree, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", object, err)
	}
	var t tree
	if err := json.Unmarshal(content, &t); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", object, err)
	}
	return t, nil
}

// absent stands for a field that one side does not have.
const absent = "(absent)"

// difference is a field that is not equal.
type difference struct {
	Field, Plain, Elected string
}

func (d difference) String() string {
	return fmt.Sprintf("%s: plain %s, elected %s", d.Field, d.Plain, d.Elected)
}

// compare returns the fields that differ, sorted.
func compare(plain, elected tree) []difference {
	r := &reporter{}
	cmp.Equal(keyed(plain), keyed(elected), cmp.Reporter(r))
	slices.SortFunc(r.found, func(a, b difference) int { return strings.Compare(a.Field, b.Field) })
	return r.found
}

// keyed replaces lists of named elements by maps, so that fields keep their names whatever the order.
func keyed(value any) any {
	switch v := value.(type) {
	case tree:
		out := tree{}
		for key, child := range v {
			out[key] = keyed(child)
		}
		return out
	case []any:
		key := listKey(v)
		if key == "" {
			out := make([]any, len(v))
			for i := range v {
				out[i] = keyed(v[i])
			}
			return out
		}
		out := tree{}
		for _, child := range v {
			if element, ok := child.(tree); ok {
				out[fmt.Sprint(element[key])] = keyed(element)
			}
		}
		return out
	}
	return value
}

// listKey returns the field that distinguishes the elements of a list, or nothing.
func listKey(list []any) string {
	for _, key := range []string{"name", "type", "mountPath", "conditionType"} {
		seen := map[string]bool{}
		for _, child := range list {
			if element, ok := child.(tree); ok && element[key] != nil {
				seen[fmt.Sprint(element[key])] = true
			}
		}
		if len(list) > 0 && len(seen) == len(list) {
			return key
		}
	}
	return ""
}

// reporter collects what cmp finds.
type reporter struct {
	path  cmp.Path
	found []difference
}

// PushStep implements cmp.Reporter.
func (r *reporter) PushStep(step cmp.PathStep) { r.path = append(r.path, step) }

// PopStep implements cmp.Reporter.
func (r *reporter) PopStep() { r.path = r.path[:len(r.path)-1] }

// Report implements cmp.Reporter.
func (r *reporter) Report(result cmp.Result) {
	if result.Equal() {
		return
	}
	plain, elected := r.path.Last().Values()
	r.found = append(r.found, difference{Field: r.field(), Plain: shown(plain), Elected: shown(elected)})
}

func (r *reporter) field() string {
	var field strings.Builder
	for _, step := range r.path {
		switch s := step.(type) {
		case cmp.MapIndex:
			if field.Len() > 0 {
				field.WriteString(".")
			}
			fmt.Fprint(&field, s.Key())
		case cmp.SliceIndex:
			plain, elected := s.SplitKeys()
			fmt.Fprintf(&field, "[%d]", max(plain, elected))
		}
	}
	return field.String()
}

func shown(value reflect.Value) string {
	if !value.IsValid() {
		return absent
	}
	content, err := json.Marshal(value.Interface())
	if err != nil {
		return fmt.Sprint(value.Interface())
	}
	return string(content)
}

// fields returns the names of all fields of an object, without the keys of maps and the indexes of lists.
func fields(prefix string, value any, into map[string]bool) {
	switch v := value.(type) {
	case tree:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			field := prefix + "." + key
			if ofUsers(prefix) {
				continue
			}
			into[field] = true
			fields(field, v[key], into)
		}
	case []any:
		for _, child := range v {
			fields(prefix, child, into)
		}
	}
}

// ofUsers says whether a field is a map whose keys users choose.
func ofUsers(field string) bool {
	for _, suffix := range []string{".limits", ".requests", ".nodeSelector", ".matchLabels", ".labels", ".overhead"} {
		if strings.HasSuffix(field, suffix) {
			return true
		}
	}
	return false
}
