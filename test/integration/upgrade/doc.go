// Package upgrade tests the upgrade from the last version in which clusters trusted one another. Its clusters begin in
// the state that this version wrote: old_test.go has each object in exactly its old form. Then the managers of the
// present version start: in one test first the source's and then the target's, in another one the other way round. An
// observer outside of both watches all pods: none is deleted, and none runs twice. A second source stays old all the
// time, and goes on writing as it did.
//
// The custom resources are those of the present, without SourceGrants until the target is upgraded. An old definition
// would only drop fields that old clusters do not write.
package upgrade
