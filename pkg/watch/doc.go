// Package watch unwraps the events of informers.
//
// Every handler of deletions must expect a tombstone, cache.DeletedFinalStateUnknown, in place of an object whose
// deletion the watch missed. Handlers made here receive objects of their own type only.
package watch
