package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/types"
)

// Operation is one step of a patch.
type Operation = jsonpatch.Operation

// Add sets the value at a pointer, whether or not there is one. The value's parent must exist.
func Add(pointer string, value any) Operation { return jsonpatch.NewOperation("add", pointer, value) }

// Remove deletes the value at a pointer, which must exist.
func Remove(pointer string) Operation { return jsonpatch.NewOperation("remove", pointer, nil) }

// Test makes the whole patch fail unless the value at a pointer is this one. API servers answer a failed test with 422
// Invalid, like a patch whose result is invalid.
func Test(pointer string, value any) Operation { return jsonpatch.NewOperation("test", pointer, value) }

// TestUID makes the whole patch fail unless the object has this UID.
func TestUID(uid types.UID) Operation { return Test(Pointer("metadata", "uid"), uid) }

// Pointer returns the JSON pointer (RFC 6901) of the value at a path.
func Pointer(path ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var pointer strings.Builder
	for _, token := range path {
		pointer.WriteByte('/')
		pointer.WriteString(escape.Replace(token))
	}
	return pointer.String()
}

// Encode returns the document that is sent to an API server, of the type application/json-patch+json.
func Encode(operations []Operation) ([]byte, error) {
	data, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding a JSON patch: %w", err)
	}
	return data, nil
}

// Merge returns a JSON merge patch (RFC 7396) of an object's metadata and of its other fields. API servers answer it
// with 409 Conflict unless the object has this UID. Nil values remove fields.
func Merge(uid types.UID, metadata, others map[string]any) ([]byte, error) {
	withUID := map[string]any{"uid": uid}
	maps.Copy(withUID, metadata)
	document := map[string]any{"metadata": withUID}
	maps.Copy(document, others)
	data, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("encoding a merge patch: %w", err)
	}
	return data, nil
}
