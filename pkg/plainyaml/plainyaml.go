// Package plainyaml refuses YAML that is small as a text and large in memory.
//
// An alias (*name) stands for a part of the document that has an anchor (&name). A hundred aliases of a part that has
// aliases itself make a document of some hundred bytes as large as memory. Parsers bound how many parts they add, and
// not how large they are.
package plainyaml

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Check returns an error, for the author of a document, if it has aliases or is no YAML. It reads the first document
// only, as decoders of Kubernetes do. JSON passes.
func Check(text []byte) error {
	if !bytes.ContainsRune(text, '*') {
		return nil
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("reading YAML: %w", err)
	}
	if alias := find(&document); alias != nil {
		return fmt.Errorf("line %d has the alias *%s, which is not allowed here: write out what it stands for",
			alias.Line, alias.Value)
	}
	return nil
}

// find returns an alias below a node, or nil.
func find(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node
	}
	for child := range slices.Values(node.Content) {
		if alias := find(child); alias != nil {
			return alias
		}
	}
	return nil
}
