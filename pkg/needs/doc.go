// Package needs lists the objects of its namespace that a pod refers to, so that package follow can copy them. It reads
// nothing but the pod.
//
// Also holds the errors that scheduling and following exchange about these objects, because neither imports the other.
package needs
