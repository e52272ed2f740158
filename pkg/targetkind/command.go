package targetkind

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ConnectCommand returns the command that connects an existing target again, with more flags. Only the user knows what
// to put in place of CONTEXT.
func ConnectCommand(key types.NamespacedName, flags ...string) string {
	command := []string{"kubectl multicluster connect", key.Name}
	if key.Namespace != "" {
		command = append(command, "--namespaced -n", key.Namespace)
	}
	return strings.Join(append(append(command, "--target-context CONTEXT"), flags...), " ")
}
