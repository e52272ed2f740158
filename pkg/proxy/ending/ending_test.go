package ending

import (
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestAnInvalidRequestIsNone(t *testing.T) {
	for value, want := range map[string]bool{"": true, "30": true, "30s": false} {
		c := &v1alpha1.PodChaperon{}
		c.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriod: value}
		if grace, asked := Asked(c); asked != want || Begun(c) != want || asked && grace != value {
			t.Errorf("%q: asked %v with %q, begun %v", value, asked, grace, Begun(c))
		}
	}
}
