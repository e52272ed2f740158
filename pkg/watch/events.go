package watch

import toolscache "k8s.io/client-go/tools/cache"

// Unwrap returns the object of an event, even if its deletion was missed. It returns false for an object of another
// type, and for nil.
func Unwrap[T any](object any) (T, bool) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	typed, ok := object.(T)
	return typed, ok
}

// OnAny returns a handler that calls changed with the object of every event: as it is now, or as it last was if it is
// gone.
func OnAny[T any](changed func(T)) toolscache.ResourceEventHandlerFuncs {
	return On(changed, changed)
}

// On returns a handler that calls seen with each object that is added or updated, and gone with each that is deleted.
// Either may be nil.
func On[T any](seen, gone func(T)) toolscache.ResourceEventHandlerFuncs {
	call := func(f func(T), object any) {
		if f == nil {
			return
		}
		if typed, ok := Unwrap[T](object); ok {
			f(typed)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(seen, object) },
		UpdateFunc: func(_, object any) { call(seen, object) },
		DeleteFunc: func(object any) { call(gone, object) },
	}
}
