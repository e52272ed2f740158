// Package kube is the little of a Kubernetes client that this program needs: it sends and receives plain JSON, so that
// the program needs no Kubernetes library and builds in a moment.
package kube
