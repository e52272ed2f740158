package cluster

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NameFrom makes a DNS label of a context's name, which may be anything (an address, say).
func NameFrom(context string) string {
	name := regexp.MustCompile("[^a-z0-9]+").ReplaceAllString(strings.ToLower(context), "-")
	if len(name) > validation.DNS1123LabelMaxLength {
		name = name[len(name)-validation.DNS1123LabelMaxLength:] // The end tells more: addresses and ARNs start alike.
	}
	return strings.Trim(name, "-")
}

// OneName checks that there is one argument, the name of a target.
func OneName(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("one NAME is needed, that of the target; got %d: see --help", len(args))
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
