package watch

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// anyTime is the resource version with which a reflector first lists, if it does not list by watching. The API server
// then answers from its watch cache, however old. Without a resource version, it answers with the latest objects.
const anyTime = "0"

// AskForThePresent makes the first list of a reflector one of the present. It is for leaders, who take this list for
// everything that their predecessors did. API servers that offer lists as watches answer so by themselves.
func AskForThePresent(options *metav1.ListOptions) {
	if options.ResourceVersion == anyTime {
		options.ResourceVersion = ""
	}
}
