// Package watch unwraps the events of watched objects, and keeps an entry of each of them.
//
// Every handler of deletions must expect a tombstone, cache.DeletedFinalStateUnknown, in place of an object whose
// deletion the watch missed. Handlers made here receive objects of their own type only.
//
// A Store is for watches of which little is needed: an informer keeps whole objects, a Store keeps a few words of each.
// A Secret is for one Secret, so that its watcher needs the right to read no others.
package watch
