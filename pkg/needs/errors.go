package needs

import (
	"fmt"
	"strings"
)

// MissingError says that the source cluster lacks what a pod cannot start without. No target helps; when the objects appear, the pod is to be
// tried again.
type MissingError struct {
	Namespace string
	Refs      []Ref
}

// Error is for the pod's owner.
func (e *MissingError) Error() string {
	names := make([]string, len(e.Refs))
	for i, ref := range e.Refs {
		names[i] = fmt.Sprintf("%s %q", ref.Resource.Kind(), ref.Name)
	}
	verb := "does"
	if len(names) > 1 {
		verb = "do"
	}
	return fmt.Sprintf("%s %s not exist in namespace %q: the pod cannot start without", strings.Join(names, ", "), verb, e.Namespace)
}

// RefusedError says that a target does not take an object that the pod cannot start without. Other targets may.
type RefusedError struct {
	Ref    Ref
	Reason string // for the pod's owner
}

// Error is for the pod's owner.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s %q %s", e.Ref.Resource.Kind(), e.Ref.Name, e.Reason)
}
