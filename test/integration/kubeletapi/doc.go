// Package kubeletapi runs the package vk/server between the API servers of a source, which decides who may ask for
// which data, and a target, which passes requests on to a kubelet. The tests play that kubelet, and the callers.
package kubeletapi
