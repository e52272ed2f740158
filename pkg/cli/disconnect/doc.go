// Package disconnect undoes the work of package connect. It deletes the target and its Secret in the source and, with
// --target-context, the identity in the target. It deletes no Secret that a user created. It also works if a part is
// gone already.
package disconnect
