package translate

import (
	"testing"

	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestWhetherTheEndOfADelegateIsAskedFor(t *testing.T) {
	const nobody = "nobody asks"
	for value, test := range map[string]struct {
		grace *int64
		asked bool
	}{
		nobody:                 {nil, false},
		"":                     {nil, true},
		"0":                    {ptr.To[int64](0), true},
		"30":                   {ptr.To[int64](30), true},
		"-1":                   {nil, false},
		"30s":                  {nil, false},
		"33333333333333333333": {nil, false},
	} {
		chaperon := &v1alpha1.PodChaperon{}
		if value != nobody {
			chaperon.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriod: value}
		}
		grace, asked := EndAsked(chaperon)
		if asked != test.asked || !ptr.Equal(grace, test.grace) {
			t.Errorf("%q: grace %v, asked %v", value, grace, asked)
		}
	}
}
