package main

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	refPrefix  = "#/definitions/"
	objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	quantity   = "io.k8s.apimachinery.pkg.api.resource.Quantity"
)

// schema is a JSON schema or a part of one, decoded from JSON.
type schema = map[string]any

// parseDefinitions returns the definitions of an OpenAPI v2 document by name, and makes them strict.
func parseDefinitions(raw []byte) (map[string]schema, error) {
	var document struct {
		Definitions map[string]schema `json:"definitions"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, err
	}
	if len(document.Definitions) == 0 {
		return nil, errors.New("the document has no definitions")
	}
	for _, definition := range document.Definitions {
		makeStrict(definition)
	}
	// The document declares a quantity as a string, but a number is allowed, too.
	document.Definitions[quantity] = schema{"type": []any{"string", "number"}}
	return document.Definitions, nil
}

// builtinSchemas returns the schemas of the kinds in defs, by file name.
func builtinSchemas(defs map[string]schema) map[string]schema {
	files := map[string]schema{}
	for _, definition := range defs {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			gvk, _ := k.(map[string]any)
			group, _ := gvk["group"].(string)
			version, _ := gvk["version"].(string)
			kind, _ := gvk["kind"].(string)
			files[fileName(group, version, kind)] = standalone(definition, defs)
		}
	}
	return files
}

// customSchemas returns the schemas of the versions of a custom resource, by file name. The YAML document raw defines
// it.
func customSchemas(raw []byte, defs map[string]schema) (map[string]schema, error) {
	var crd struct {
		Spec struct {
			Group    string `json:"group"`
			Names    struct{ Kind string }
			Versions []struct {
				Name   string `json:"name"`
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return nil, err
	}
	if crd.Spec.Names.Kind == "" || len(crd.Spec.Versions) == 0 {
		return nil, errors.New("the document is not a CustomResourceDefinition")
	}
	files := map[string]schema{}
	for _, version := range crd.Spec.Versions {
		root := version.Schema.OpenAPIV3Schema
		if properties, ok := root["properties"].(map[string]any); ok {
			properties["metadata"] = schema{"$ref": refPrefix + objectMeta}
		}
		makeStrict(root)
		files[fileName(crd.Spec.Group, version.Name, crd.Spec.Names.Kind)] = standalone(root, defs)
	}
	return files, nil
}

// makeStrict turns the OpenAPI dialect of Kubernetes into plain JSON schema, in place. It closes every object whose
// fields are known.
func makeStrict(node any) {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			makeStrict(child)
		}
	case map[string]any:
		for key, child := range n {
			if fields, ok := child.(map[string]any); ok && key == "properties" {
				// The keys are names of fields, not keywords of a schema.
				for _, field := range fields {
					makeStrict(field)
				}
				continue
			}
			makeStrict(child)
		}
		closeObject(n)
		widenType(n)
	}
}

func closeObject(n schema) {
	_, hasFields := n["properties"].(map[string]any)
	_, decided := n["additionalProperties"]
	if hasFields && !decided && n["x-kubernetes-preserve-unknown-fields"] != true {
		n["additionalProperties"] = false
	}
}

func widenType(n schema) {
	if n["format"] == "int-or-string" {
		n["type"] = []any{"integer", "string"}
	}
	if t, ok := n["type"].(string); ok && n["nullable"] == true {
		n["type"] = []any{t, "null"}
	}
}

// standalone returns a copy of root that contains every definition to which root refers, directly or not.
func standalone(root schema, defs map[string]schema) schema {
	reached := map[string]any{}
	collect(root, defs, reached)
	s := maps.Clone(root)
	s["definitions"] = reached
	return s
}

func collect(node any, defs map[string]schema, reached map[string]any) {
	switch n := node.(type) {
	case []any:
		for _, child := range n {
			collect(child, defs, reached)
		}
	case map[string]any:
		ref, _ := n["$ref"].(string)
		name, isRef := strings.CutPrefix(ref, refPrefix)
		if _, seen := reached[name]; isRef && !seen {
			reached[name] = defs[name]
			collect(defs[name], defs, reached)
		}
		for _, child := range n {
			collect(child, defs, reached)
		}
	}
}
