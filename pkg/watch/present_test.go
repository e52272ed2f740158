package watch

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheFirstListIsOfThePresent(t *testing.T) {
	for given, want := range map[string]string{"0": "", "": "", "17": "17"} {
		options := metav1.ListOptions{ResourceVersion: given}
		AskForThePresent(&options)
		if options.ResourceVersion != want {
			t.Errorf("version %q becomes %q, want %q", given, options.ResourceVersion, want)
		}
	}
}
