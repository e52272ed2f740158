// Package quality compares how targets are chosen with what kube-scheduler itself would do in them: random clusters are summarized, random
// pods are compared with the summaries, and the framework of the real kube-scheduler is asked whether a node takes them. Its tests need
// nothing that runs.
//
//	go test ./test/quality -v               # a few thousand pods
//	go test ./test/quality -v -cases 100000 # as many as one likes, from other seeds with -seed
package quality
