// Package checker watches a source and its targets from outside, and says which promises the product breaks. It shares
// no code with the product, except the keys of labels.
//
// Two things tell it what happens: the API servers, which it watches by its own connections, and the processes of the
// machine. A process in the control group of a pod proves that the pod runs, whatever an API server says.
package checker
