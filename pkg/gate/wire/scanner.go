package wire

import "fmt"

// initialEventsEnd is the key of the annotation of the bookmark that ends the initial events of a watch.
const initialEventsEnd = `"k8s.io/initial-events-end"`

// maxDepth bounds nesting. Decoders recurse.
const maxDepth = 1000

// total is the size of a list, or of the initial events of a watch.
type total struct{ bytes, elements, items int64 }

// scanner counts what a stream of JSON values would cost if it were decoded. It does not validate JSON.
type scanner struct {
	limits *Limits
	// list is the total of a list. It is nil for objects, and for watches after their initial events.
	list *total
	// watched says that the values are events of a watch: each is bounded as an object.
	watched bool

	size, elements int64 // of the value that has begun
	depth          int
	inString       bool
	escaped        bool
	inToken        bool // a number, true, false or null
	mayBegin       bool // The next value is an element of an array, unless it is the key of an object.
	matched        int  // the number of bytes of initialEventsEnd that were just read
	values         int  // the number of events that have ended
}

// begun says whether a value has begun and not ended.
func (s *scanner) begun() bool { return s.depth > 0 || s.inString }

func (s *scanner) scan(p []byte) error {
	for i := 0; i < len(p); i++ {
		if s.inString && !s.escaped && s.matched == 0 {
			n := plain(p[i:])
			s.size += int64(n)
			if i += n; i == len(p) {
				break
			}
		}
		s.size++
		if s.inString {
			s.text(p[i])
			continue
		}
		s.structure(p[i])
		if s.depth > maxDepth {
			return &BoundError{"an object that is nested too deeply"}
		}
	}
	if s.list != nil {
		s.list.bytes += int64(len(p))
	}
	return s.check()
}

// plain returns the number of bytes before the next one that counts in a string.
func plain(p []byte) int {
	for i, c := range p {
		if c == '"' || c == '\\' {
			return i
		}
	}
	return len(p)
}

func (s *scanner) text(c byte) {
	s.match(c)
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.inString = false
	}
}

// match ends the initial events at their bookmark.
func (s *scanner) match(c byte) {
	if s.matched < len(initialEventsEnd) && c == initialEventsEnd[s.matched] {
		s.matched++
	} else {
		s.matched = 0
	}
	if s.watched && s.matched == len(initialEventsEnd) {
		s.list = nil
	}
}

func (s *scanner) structure(c byte) {
	switch c {
	case ' ', '\t', '\n', '\r':
		s.inToken = false
	case '"':
		s.inString, s.mayBegin, s.inToken, s.matched = true, false, false, 1
	case ',':
		s.mayBegin, s.inToken = true, false
	case ':':
		s.mayBegin, s.inToken = false, false
	case '{', '[':
		s.element()
		s.depth++
		s.mayBegin, s.inToken = c == '[', false
	case '}', ']':
		s.mayBegin, s.inToken = false, false
		if s.depth--; s.depth <= 0 {
			s.end()
		}
	default:
		if !s.inToken {
			s.element()
			s.inToken = true
		}
	}
}

// element counts a value that begins and is no string, if it is an element of an array.
func (s *scanner) element() {
	if !s.mayBegin {
		return
	}
	s.mayBegin = false
	s.elements++
	if s.list != nil {
		s.list.elements++
		if !s.watched && s.depth == 2 {
			s.list.items++
		}
	}
}

func (s *scanner) end() {
	if s.list != nil && s.watched {
		s.list.items++
	}
	s.depth = 0
	// All values in an answer that is no watch count together. The check at the end of the bytes that were read must
	// see a value that is too large and has ended in them.
	if !s.watched || s.overObject() {
		return
	}
	s.size, s.elements = 0, 0
	s.values++
}

// overObject says whether an object, or an event, is too large.
func (s *scanner) overObject() bool {
	if s.list != nil && !s.watched {
		return false
	}
	return s.size > s.limits.Object || s.elements > s.limits.Elements
}

func (s *scanner) check() error {
	switch l := s.list; {
	case s.size > s.limits.Object && s.overObject():
		return &BoundError{fmt.Sprintf("an object of more than %d MiB", s.limits.Object>>20)}
	case s.overObject():
		return &BoundError{fmt.Sprintf("an object with more than %d elements", s.limits.Elements)}
	case l == nil:
		return nil
	case l.bytes > s.limits.List:
		return &BoundError{fmt.Sprintf("a list of more than %d MiB", s.limits.List>>20)}
	case l.items > s.limits.Objects():
		return &BoundError{fmt.Sprintf("a list of more than %d objects", s.limits.Objects())}
	case l.elements > s.limits.ListElements+l.items*s.limits.ItemElements:
		return &BoundError{fmt.Sprintf("a list with more than %d elements", l.elements)}
	}
	return nil
}
