// Package needs says which objects of its namespace a pod refers to, so that they can go with it.
//
// It reads the pod alone. What scheduling and following tell each other about those objects is here, too: neither imports the other.
package needs
