// Package kubeletapi runs the package vk/server between the API servers of a source, which says who may ask it for what, and a
// target, which passes its requests on to a kubelet. The tests play that kubelet, and the callers.
package kubeletapi
