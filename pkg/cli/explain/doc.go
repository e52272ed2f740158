// Package explain says why a pod is where it is, or nowhere: what the scheduler saw of each target, what it tried and what targets answered.
//
// The manager that leads knows that, and is asked as API servers ask kubelets: through the proxy of any virtual node. That takes a right that not
// everybody has, and a manager that remembers the pod. Without, the pod itself, its condition and its events say the most important, and the
// command says what is missing for the rest.
//
// What is read and what is printed of it are apart: everything between is pure.
package explain
