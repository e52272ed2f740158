// Command figures measures the code and the prose of this repository: the lengths of functions and files, the share of
// comments, names that many packages declare, and the lengths of sentences and lines.
//
//	go run ./hack/figures           # the figures
//	go run ./hack/figures -list     # the figures, and every place behind them
//	go run ./hack/figures -packages # every package, with the first sentence of its comment
//
// Run it in the root of a checkout. The figures help to compare two states of the repository. They fail nothing: the
// limits are those of .golangci.yaml and of hack/words.
package main
