// Package token renews the tokens with which a source connects to its targets. It also says when credentials expire.
//
// The user's Secret has the first token of a target. At half of a token's life, the leader asks the target for the next
// one (TokenRequest), for the same service account and as long as the first. It keeps that token in a Secret of the
// manager's. It never writes to the user's Secret: a tool may own that Secret and would undo the change.
//
// A renewed token belongs to one kubeconfig, which a fingerprint identifies. If the user's Secret has another
// kubeconfig, or is gone, or if the target is gone, the renewal ends. The renewed token is deleted with the target, and
// otherwise when it expires: the user may put the Secret back, whose own token may have expired long before. A Secret
// that cannot be used only interrupts the renewal.
//
// Requests read the token when they are sent. So a new token needs no new connection, and watches go on.
//
// Not everything is renewed: client certificates, tokens that do not expire, and tokens of identities that are no
// service accounts, or may not make tokens for themselves.
//
// The chart creates the manager's Secret empty, and Helm keeps it. So the manager needs rights on one name only, and no
// right to create Secrets. An upgrade does not touch the data. If somebody empties the Secret, the leader writes the
// tokens again.
//
// # Time
//
// A renewed token expires when its life has passed on the manager's own clock, since the answer arrived. So clocks that
// differ do no harm. For the token in the user's Secret, the times in the token count, unless it begins in the future:
// then the target's clock is ahead, and its life begins now. Which of two tokens is newer, the target's clock says.
//
// # What a target can do
//
// A target sees its own tokens only. Its answers are bounded, and renewals are at least a minute apart, so that it
// cannot make the manager write all the time.
package token
