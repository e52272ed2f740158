// Command schemas writes the JSON schemas that kubeconform checks rendered manifests against, without any network: those
// of the built-in kinds from the OpenAPI document that the k8s.io/kubernetes module ships, those of custom resources from
// their CustomResourceDefinitions.
//
//	schemas -openapi swagger.json -out DIR CRD.yaml...
//
// A schema is written to DIR/<group>/<kind>_<version>.json in lower case, the group of the core kinds being "v1" (as
// kubeconform has it). The schemas are strict: an object whose fields are known refuses any other field, because a field that
// the API server would drop silently is a mistake in the chart. Each file stands alone, with the definitions it refers
// to copied in; that costs disk and spares a resolver.
package main
