// Package disconnect undoes the work of package connect. It deletes the target and its Secret in the source and, with
// --target-context, the identity in the target. It deletes no Secret that a user created. It also works if a part is
// gone already.
//
// With --revoke, it takes everything from a source that the source has in the target, first of all and even if another
// connection uses it. This is for stolen credentials, and needs no access to the source.
package disconnect
