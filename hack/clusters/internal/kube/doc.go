// Package kube is a minimal Kubernetes client. It sends and receives plain JSON, so the program clusters needs no
// Kubernetes library and builds in a moment.
package kube
