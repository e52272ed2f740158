// Package explain prints why a pod is where it is, or nowhere: how the scheduler saw each target, where it tried the
// pod, and the targets' answers. Package diagnosis has most of the words. The reasons why nodes do not fit come from
// package fit, and the targets' answers from package placement.
//
// The leading manager has this explanation. The command requests it as API servers request logs from kubelets: through
// the proxy of any virtual node. This needs a right that not everybody has, and a manager that still knows the pod.
// Without the explanation, the command prints the pod's condition and events, which hold the most important facts, and
// says why the rest is missing.
//
// Reading (read.go) and printing (text.go) are separate. Everything between them is pure.
package explain
