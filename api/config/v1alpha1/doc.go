// Package v1alpha1 is the manager's configuration file. Decoding is strict: an unknown field is an error that names the
// field.
//
// +kubebuilder:object:generate=true
// +groupName=config.multicluster.admiralty.io
package v1alpha1
