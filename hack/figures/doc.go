// Command figures measures the code and the prose of this repository: the lengths of functions, files, sentences and
// lines, the share of comments, and the names that many packages declare.
//
//	go run ./hack/figures           # the figures
//	go run ./hack/figures -list     # the figures, and every place behind them
//	go run ./hack/figures -packages # every package, with the first sentence of its comment
//
// Run it in the root of a checkout. The figures compare two states of the repository. They set no limits:
// .golangci.yaml and hack/words do.
package main
