// Command schemas writes the JSON schemas with which kubeconform checks rendered manifests, so that the check needs no
// network. The schemas of built-in kinds come from the OpenAPI document in the module k8s.io/kubernetes, those of
// custom resources from their CustomResourceDefinitions.
//
//	schemas -openapi swagger.json -out DIR CRD.yaml...
//
// The file of a schema is DIR/<group>/<kind>_<version>.json, in lower case. The group of the core kinds is "v1", as in
// kubeconform. The schemas are strict: an object with known fields must not have others. The API server would drop such
// a field silently, so the field is a mistake in the chart. Each file contains the definitions to which it refers. The
// copies cost disk space, but the program needs no code that resolves references.
package main
