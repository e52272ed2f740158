// Package disconnect undoes what package connect did: it deletes the target and its Secret in the source and, if asked to, the
// identity in the target. It deletes no Secret that a person made, and works in the same way when half of it is gone already.
package disconnect
