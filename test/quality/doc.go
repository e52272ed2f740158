// Package quality compares the choice of a target with the decisions of kube-scheduler in that target.
//
// Its tests generate random clusters and pods. Summaries of the clusters are compared with the pods, and the framework
// of the real kube-scheduler is asked whether a node takes them. The tests need neither an API server nor a cluster.
//
//	go test ./test/quality -v               # a few thousand pods
//	go test ./test/quality -v -cases 100000 # more pods; -seed generates others
package quality
