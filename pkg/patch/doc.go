// Package patch builds JSON patches (RFC 6902), whose operations are those of gomodules.xyz/jsonpatch, as in
// controller-runtime's webhooks. That library compares documents and creates the operations by itself; here each
// operation is chosen, so that fields that this build does not know survive.
//
// Merge builds JSON merge patches (RFC 7396) of one object, where the object is known by its UID.
package patch
