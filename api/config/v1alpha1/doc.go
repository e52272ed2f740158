// Package v1alpha1 is the manager's configuration file. It is decoded strictly: an unknown field is an error that names it.
//
// +kubebuilder:object:generate=true
// +groupName=config.multicluster.admiralty.io
package v1alpha1
