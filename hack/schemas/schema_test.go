package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const document = `{"definitions": {
	"io.k8s.api.apps.v1.Deployment": {
		"type": "object",
		"properties": {
			"metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
			"port": {"type": "string", "format": "int-or-string"}
		},
		"x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}]
	},
	"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
		"type": "object",
		"properties": {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}
	}
}}`

var closedMeta = schema{
	"type":                 "object",
	"additionalProperties": false,
	"properties": schema{
		"labels": schema{"type": "object", "additionalProperties": schema{"type": "string"}},
	},
}

func TestBuiltinSchemasAreStrictAndStandAlone(t *testing.T) {
	defs, err := parseDefinitions([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	got := builtinSchemas(defs)["apps/deployment_v1.json"]
	delete(got, "x-kubernetes-group-version-kind")
	want := schema{
		"type":                 "object",
		"additionalProperties": false,
		"properties": schema{
			"metadata": schema{"$ref": "#/definitions/" + objectMeta},
			"port":     schema{"type": []any{"integer", "string"}, "format": "int-or-string"},
		},
		"definitions": schema{objectMeta: closedMeta},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestCustomSchemasCloseOnlyObjectsWithKnownFields(t *testing.T) {
	defs, err := parseDefinitions([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	got, err := customSchemas([]byte(`
kind: CustomResourceDefinition
spec:
  group: example.org
  names: {kind: Thing}
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, nullable: true, properties: {a: {type: string}}}
          open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
`), defs)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]schema{"example.org/thing_v1alpha1.json": {
		"type":                 "object",
		"additionalProperties": false,
		"properties": schema{
			"metadata": schema{"$ref": "#/definitions/" + objectMeta},
			"spec": schema{
				"type": []any{"object", "null"}, "nullable": true, "additionalProperties": false,
				"properties": schema{"a": schema{"type": "string"}},
			},
			"open": schema{
				"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				"properties": schema{"a": schema{"type": "string"}},
			},
		},
		"definitions": schema{objectMeta: closedMeta},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("schemas (-want +got):\n%s", diff)
	}
}

func TestOtherDocumentsAreRefused(t *testing.T) {
	if _, err := customSchemas([]byte("kind: ConfigMap"), nil); err == nil {
		t.Error("a ConfigMap was taken for a CustomResourceDefinition")
	}
	if _, err := parseDefinitions([]byte("{}")); err == nil {
		t.Error("an empty document was taken for an OpenAPI document")
	}
}
