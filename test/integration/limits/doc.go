// Package limits tests on real API servers that clusters which have reached a limit keep working, or say so: a full
// etcd, a quota on PodChaperons, and many namespaces.
//
// There is a source, c1, and two targets, c2 and c3. Source and targets run the parts of the product that place pods
// and run delegates. The test plays the schedulers and kubelets of the targets. The clock of connections goes faster
// than the wall's.
package limits
