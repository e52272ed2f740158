// Package wire is the transport to a target. It bounds the memory and the time that the answers of a target's API
// server cost, whatever the server sends.
//
// [Harden] makes a [Connection]. All clients of a target are made from [Connection.Config], or use its transport, so
// that none can forget the bounds. [Streams] and [HardenStreams] are for logs and exec, which have no end.
//
// # Answers
//
// The bounds hold for unpacked bytes, because http.Transport unpacks below. Every answer must be JSON. A scanner counts
// the bytes, the items of lists and the elements of arrays before anything decodes them. It counts elements because
// decoding multiplies them: "{}," is three bytes, and a container is almost a kilobyte. A string in an array of
// containers costs as much, although it is an error. So it counts, too, unless the array's key is one of strings.
// Protobuf cannot be counted without its schema, and its elements have two bytes. So requests ask for JSON only. Bodies
// of requests may be protobuf.
//
//   - Objects, and each event of a watch, have [Limits.Object] bytes and [Limits.Elements] elements.
//   - Lists have [Limits.List] bytes and [Limits.Objects] items, all pages together. So have the initial events of a
//     watch, until the bookmark that ends them. Each item is bounded as an object.
//   - Lists of more than [Limits.LargeList] bytes come one after another, for all targets that share a [Turn]. Watches
//     need no turn: their events are decoded one by one.
//   - Bodies of errors are cut, so that the status code still counts.
//   - Amounts of resources that are dangerous to decode are cut, by package amounts. This is no violation.
//   - Redirects are errors, and nothing is dialled for them.
//   - A frame of a watch that has begun must end in time. Between frames, a watch may rest for ever.
//   - All bodies of a target share one token bucket. A watch that exceeds it is slowed: nobody reads it meanwhile.
//
// # The account
//
// An [Account] belongs to one engagement. A single violation ends its request only. Several violations within minutes,
// or more objects than a target may have, exceed the account: reflectors would try again for ever. The owner of the
// account then ends the engagement.
//
// # Confirmation
//
// Another cluster may get the address of a target. [Options].Confirm asks where a connection leads before anything is
// sent over it. It also asks after answers that say which objects do not exist, because a proxy can pass requests of
// one connection on to several clusters. Each stream has a connection of its own, so that it is confirmed before it
// begins.
//
// # Delay
//
// The kernel goes on sending what it was given, also when the process is frozen. So each connection bounds for how
// long, by TCP_USER_TIMEOUT: a request must not arrive after the next leader has begun.
//
// # Addresses
//
// [Dial] checks addresses after names are resolved, when a connection is made, so that a name cannot change its address
// between check and use. Through a proxy of the manager's own environment, the name is resolved and checked first,
// and the proxy resolves it again: such a proxy must have rules of its own.
package wire
