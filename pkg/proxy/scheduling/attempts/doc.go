// Package attempts remembers, per pod, what its earlier attempts showed: which targets refused it and are left out for
// a while, the trial that it is in, and its demand.
//
// There is one record per pod, one lock, and one function that forgets a pod.
package attempts
