// Package words has no code, only tests of the repository's language: retired names stay retired, the glossary stays
// short, and lines stay within their limit. The list of retired words is in retired_test.go.
//
//	go test -race ./hack/words
package words
