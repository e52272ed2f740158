// Package lifecycle tests how pods begin and end across two clusters: with the source's feedback and the target's
// controller of PodChaperons. The tests play the schedulers and the kubelets.
package lifecycle
