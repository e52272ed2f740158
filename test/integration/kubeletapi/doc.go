// Package kubeletapi runs the package vk/server between the API servers of a source and a target. The source decides
// who may ask for which data. The target passes requests on to a kubelet. The tests play that kubelet, and the
// callers.
package kubeletapi
