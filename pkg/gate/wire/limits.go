package wire

import "time"

// Limits bound the answers of one target.
type Limits struct {
	// Object bounds the bytes of an object, and of an event of a watch. API servers accept requests of this size.
	Object int64
	// Elements bounds the elements of arrays in an object, except of arrays of strings. An object that an API server
	// stores (1.5 MiB) cannot have more.
	Elements int64
	// List bounds the bytes of a list, all pages together, and of the initial events of a watch. Its items are objects.
	List int64
	// LargeList is the size from which a list needs the Turn.
	LargeList int64
	// ListTexts bounds the keys, and the strings of arrays of strings, in a list.
	ListTexts int64
	// ListElements bounds the elements of a list, which also has ItemElements for each of its items.
	ListElements, ItemElements int64
	// Objects bounds the items of a list, and the objects that are kept. It is asked for each list and each object.
	Objects func() int64
	// Kept bounds the bytes of the objects that are kept.
	Kept int64
	// ErrorBody is the number of bytes of an error that are read.
	ErrorBody int64
	// Header bounds the bytes of an answer's header.
	Header int64
	// Rate is the number of bytes per second that are read from a target, after Burst bytes.
	Rate, Burst int
	// Violations is the number of violations within ViolationsWithin that exceed the account.
	Violations       int
	ViolationsWithin time.Duration

	// Request, Relist and Frame bound the time for a request, for a list or the initial events of a watch, and for
	// an event of a watch that has begun.
	Request, Relist, Frame time.Duration
}

// chunk bounds one read.
const chunk = 32 << 10

// Default returns the limits of a target with up to 10,000 delegates.
func Default() Limits {
	return Limits{
		Object:           3 << 20,
		Elements:         125_000,
		List:             160 << 20, // 16 KiB for each delegate; a burst of 32 MiB and the rest take half of Relist
		LargeList:        4 << 20,
		ListTexts:        6_000_000, // 600 for each delegate; the entry of a map has about 100 bytes
		ListElements:     500_000,
		ItemElements:     100,
		Objects:          func() int64 { return 21_000 }, // twice the delegates, and 1,000
		Kept:             128 << 20,
		ErrorBody:        64 << 10,
		Header:           64 << 10,
		Rate:             4 << 20,
		Burst:            32 << 20,
		Violations:       5,
		ViolationsWithin: 10 * time.Minute,
		Request:          15 * time.Second,
		Relist:           time.Minute,
		Frame:            30 * time.Second,
	}
}
