package needs

import (
	"fmt"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
)

// MissingError means that the source cluster lacks objects without which the pod cannot start. No target can help. The
// pod is tried again when the objects appear.
type MissingError struct {
	Namespace string
	Refs      []Ref
}

// Error is a message for the pod's owner.
func (e *MissingError) Error() string {
	names := make([]string, len(e.Refs))
	for i, ref := range e.Refs {
		names[i] = fmt.Sprintf("%s %q", ref.Resource.Kind(), ref.Name)
	}
	verb := "does"
	if len(names) > 1 {
		verb = "do"
	}
	return fmt.Sprintf("%s %s not exist in namespace %q: the pod cannot start without",
		strings.Join(names, ", "), verb, e.Namespace)
}

// RefusedError means that a target does not take a copy of an object without which the pod cannot start. Other targets
// may take it.
type RefusedError struct {
	Ref    Ref
	Reason string // continues the sentence that begins with the object, for the pod's owner
	// Class is that of the answer by which the target's API server refused the copy. It is OK if no answer did.
	Class apierror.Class
}

// Error is a message for the pod's owner.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %q %s", e.Ref.Resource.Kind(), e.Ref.Name, e.Reason)
}
