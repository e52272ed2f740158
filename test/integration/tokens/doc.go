// Package tokens tests with real API servers how a source renews the tokens with which it connects to its targets, and
// that a target can revoke them. The source's clock is a fake one. The tokens are real, and live for ten minutes.
package tokens
