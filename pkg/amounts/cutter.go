package amounts

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// maxKey bounds the bytes of a key that are kept: more than the longest key of kinds, with all characters escaped.
const maxKey = 128

// kind is what an object or array has.
type kind byte

const (
	other   kind = iota
	array        // whose elements are no amounts
	element      // an object in an array, perhaps with amounts
	list         // an object whose values are amounts
	single       // an object with one amount
	lists        // an array whose elements are lists
)

// kindOf returns what the object below a key has.
func kindOf(key []byte) kind {
	switch {
	case isOneOf(key, "allocatable", "allocatedResources", "capacity", "limits", "overhead", "requested", "requests",
		"resources"):
		return list
	case isOneOf(key, "emptyDir", "resourceFieldRef"):
		return single
	default:
		return other
	}
}

// isAmount says whether the value of a key is an amount, in an object of this kind.
func (k kind) isAmount(key []byte) bool {
	switch k {
	case list:
		return true
	case single:
		return isOneOf(key, "divisor", "sizeLimit")
	case element:
		return isOneOf(key, "perContainer", "perPod", "quantity")
	default:
		return false
	}
}

// isOneOf compares keys without regard to case, as some decoders do.
func isOneOf(key []byte, names ...string) bool {
	text := string(key)
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, text) })
}

// Cutter cuts amounts in a stream of JSON. The zero value is ready for the beginning of a stream. It is not safe for
// concurrent use.
type Cutter struct {
	open     []kind // the objects and arrays that have begun
	key      []byte // the last key, as it is written
	about    string // the key of the last amount that was cut
	amount   shape
	text     bool // in a string
	escaped  bool // in a string, after a backslash
	isKey    bool // The string is a key.
	keyNext  bool // The next string is a key.
	isAmount bool // The next scalar, or the one that has begun, is an amount.
}

// Cut changes the next bytes of a stream so that all amounts in it are harmless. It keeps their number and the
// structure of the JSON. It says whether it changed anything.
func (c *Cutter) Cut(p []byte) (cut bool) {
	for i := 0; i < len(p); i++ {
		if !c.text {
			cut = c.structure(&p[i]) || cut
			continue
		}
		if !c.escaped && !c.isAmount {
			n := plain(p[i:])
			c.keep(p[i : i+n])
			if i += n; i == len(p) {
				break
			}
		}
		cut = c.character(&p[i]) || cut
	}
	return cut
}

// plain returns the number of bytes before the next one that counts in a string.
func plain(p []byte) int {
	end := bytes.IndexByte(p, '"')
	if end < 0 {
		end = len(p)
	}
	if escape := bytes.IndexByte(p[:end], '\\'); escape >= 0 {
		return escape
	}
	return end
}

// keep keeps bytes of a key.
func (c *Cutter) keep(p []byte) {
	if c.isKey {
		c.key = append(c.key, p[:min(len(p), maxKey+1-len(c.key))]...)
	}
}

// character reads a byte of a string.
func (c *Cutter) character(b *byte) bool {
	switch {
	case c.escaped:
		c.escaped = false
	case *b == '\\':
		c.escaped = true
	case *b == '"':
		c.text = false
		return false
	}
	c.keep([]byte{*b})
	return c.isAmount && c.replace(b)
}

// replace cuts a byte of an amount.
func (c *Cutter) replace(b *byte) bool {
	was, over := *b, c.amount.over
	*b = c.amount.next(was)
	if c.amount.over && !over {
		c.about = string(c.key)
	}
	return *b != was
}

// structure reads a byte outside of strings.
func (c *Cutter) structure(b *byte) bool {
	switch *b {
	case ' ', '\t', '\n', '\r':
	case '"':
		c.begin()
	case ',':
		c.isAmount = false
		c.keyNext = len(c.open) > 0 && c.open[len(c.open)-1] != array && c.open[len(c.open)-1] != lists
	case ':':
		c.isAmount = len(c.open) > 0 && c.open[len(c.open)-1].isAmount(c.lastKey())
	case '{', '[':
		c.nest(*b)
	case '}', ']':
		c.open = c.open[:max(0, len(c.open)-1)]
		c.isAmount, c.keyNext = false, false
	default:
		return c.isAmount && c.replace(b)
	}
	return false
}

// begin begins a string.
func (c *Cutter) begin() {
	c.text, c.isKey, c.keyNext = true, c.keyNext, false
	c.amount = shape{}
	if c.isKey {
		c.key = c.key[:0]
	}
}

// nest begins an object or array. It is the value of the last key, or an element.
func (c *Cutter) nest(b byte) {
	is := array
	switch {
	case b == '[':
		if isOneOf(c.lastKey(), "empty") {
			is = lists
		}
	case len(c.open) == 0:
		is = other
	case c.open[len(c.open)-1] == array:
		is = element
	case c.open[len(c.open)-1] == lists:
		is = list
	default:
		is = kindOf(c.lastKey())
	}
	c.open = append(c.open, is)
	c.keyNext, c.isAmount = b == '{', false
}

// lastKey returns the last key as decoders read it.
func (c *Cutter) lastKey() []byte {
	if len(c.key) > maxKey {
		return nil
	}
	if bytes.IndexByte(c.key, '\\') < 0 {
		return c.key
	}
	var key string
	if err := json.Unmarshal([]byte(`"`+string(c.key)+`"`), &key); err != nil {
		return nil // Decoders do not read it either.
	}
	return []byte(key)
}
