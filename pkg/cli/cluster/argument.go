package cluster

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NameFrom derives a DNS label from the name of a context, which may be any text (an address, say).
func NameFrom(context string) string {
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(context), "-")
	if len(name) > validation.DNS1123LabelMaxLength {
		// The end differs more: addresses and ARNs begin alike.
		name = name[len(name)-validation.DNS1123LabelMaxLength:]
	}
	return strings.Trim(name, "-")
}

// OneName checks that there is exactly one argument, the name of a target.
func OneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("exactly one NAME is needed, the name of the target; got %d: see --help", len(args))
	}
	return nil
}

// CompleteContexts completes a flag whose value is a context.
func (k *Kubeconfig) CompleteContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	contexts, err := k.Contexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return contexts, cobra.ShellCompDirectiveNoFileComp
}
