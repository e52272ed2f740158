// Package uninstall tests what the chart's Job does before Helm deletes the release, with the rights that the chart
// gives the Job. The tests play the manager that ends delegates, and Kubernetes' garbage collector.
package uninstall
