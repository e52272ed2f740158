package wire

import "fmt"

// initialEventsEnd is the key of the annotation of the bookmark that ends the initial events of a watch.
const initialEventsEnd = `"k8s.io/initial-events-end"`

// maxDepth bounds nesting. Decoders recurse.
const maxDepth = 1000

// maxWord bounds the strings that may be keys of arrays of strings.
const maxWord = 17

// isStrings says whether the array of this key has strings, or numbers, in all kinds that have one. An array of others
// costs up to a kilobyte for each string in it, because decoders make the element before they see that it is a string.
// A test compares the keys with the types.
func isStrings(key []byte) bool {
	switch string(key) {
	case "accessModes", "add", "args", "bindMountOptions", "command", "drop", "externalIPs", "finalizers", "hostnames",
		"hosts", "latest", "matchLabelKeys", "mismatchLabelKeys", "monitors", "nameservers", "namespaces",
		"omittedLabels", "portals", "searches", "targetWWNs", "values", "wwids":
		return true
	default:
		return false
	}
}

// total is the size of a list, or of the initial events of a watch. Its texts are the keys, and the strings of arrays
// of strings.
type total struct{ bytes, elements, items, texts int64 }

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
	pending        bool // The last string is an element of an array, unless it is the key of an object.
	strings        int  // the depth in the array of strings that has begun, or 0
	word           [maxWord]byte
	wordSize       int // of the last string, in word. It is larger than maxWord if the string is no word.
	matched        int // the number of bytes of initialEventsEnd that were just read
	values         int // the number of events that have ended
}

// begun says whether a value has begun and not ended.
func (s *scanner) begun() bool { return s.depth > 0 || s.inString }

func (s *scanner) scan(p []byte) error {
	for i := 0; i < len(p); i++ {
		if s.inString && !s.escaped && s.matched == 0 {
			n := plain(p[i:])
			s.size += int64(n)
			s.spell(p[i : i+n])
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
		s.escaped, s.wordSize = true, maxWord+1
	case c == '"':
		s.inString = false
	default:
		s.spell([]byte{c})
	}
}

// spell keeps a part of a string.
func (s *scanner) spell(p []byte) {
	if len(p) > maxWord-s.wordSize {
		s.wordSize = maxWord + 1
		return
	}
	s.wordSize += copy(s.word[s.wordSize:], p)
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
		s.pending, s.wordSize = s.mayBegin, 0
		s.inString, s.mayBegin, s.inToken, s.matched = true, false, false, 1
	case ',':
		s.textEnded()
		s.mayBegin, s.inToken = true, false
	case ':':
		s.key()
		s.mayBegin, s.inToken = false, false
	case '{', '[':
		s.nest(c)
	case '}', ']':
		s.textEnded()
		s.unnest()
	default:
		if !s.inToken {
			s.element()
			s.inToken = true
		}
	}
}

// key counts a key.
func (s *scanner) key() {
	s.pending = false
	if s.list != nil {
		s.list.texts++
	}
}

// nest begins an object or array. One that is no element is the value of the last key.
func (s *scanner) nest(c byte) {
	isValue := !s.mayBegin
	s.element()
	s.depth++
	if c == '[' && isValue && s.wordSize <= maxWord && isStrings(s.word[:s.wordSize]) {
		s.strings = s.depth
	}
	s.mayBegin, s.inToken = c == '[', false
}

// unnest ends an object or array.
func (s *scanner) unnest() {
	if s.strings == s.depth {
		s.strings = 0
	}
	s.mayBegin, s.inToken = false, false
	switch s.depth--; {
	case s.depth <= 0:
		s.end()
	case s.depth == 2 && s.list != nil && !s.watched && !s.overObject():
		s.size, s.elements = 0, 0 // of the next item of the list
	}
}

// textEnded counts a string that was an element of an array.
func (s *scanner) textEnded() {
	switch {
	case !s.pending:
	case s.depth != s.strings:
		s.count()
	case s.list != nil:
		s.list.texts++
	}
	s.pending = false
}

// element counts a value that begins and is no string, if it is an element of an array.
func (s *scanner) element() {
	if s.mayBegin {
		s.mayBegin = false
		s.count()
	}
}

func (s *scanner) count() {
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

// overObject says whether an object, an event, or an item of a list is too large.
func (s *scanner) overObject() bool {
	return s.size > s.limits.Object || s.elements > s.limits.Elements
}

func (s *scanner) check() error {
	switch l := s.list; {
	case s.size > s.limits.Object:
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
	case l.texts > s.limits.ListTexts:
		return &BoundError{fmt.Sprintf("a list with more than %d keys and strings", s.limits.ListTexts)}
	}
	return nil
}
