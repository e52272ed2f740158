package v1alpha1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
)

// UnmarshalJSON reads a PodChaperon, in whatever state others left its spec and status. A part that cannot be read
// stays empty, and Unreadable says why. So such a PodChaperon fails no list and no watch, which also have those of
// others. Only metadata must be valid, which API servers check.
//
// API servers do not check the spec. Kubernetes' own decoder panics on some quantities, and never ends on others. Both
// are found before they are decoded. Fields of the spec that this version does not know are left out, and Unknown
// names them.
func (c *PodChaperon) UnmarshalJSON(data []byte) error {
	type plain PodChaperon
	c.Unreadable, c.Unknown = "", nil
	if !mayBeCostly(data) {
		if unknown, err := decode(data, (*plain)(c)); err == nil {
			c.Unknown = unknownInSpec("", unknown)
			return nil
		}
	}
	parts := struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitempty"`
		Spec              json.RawMessage `json:"spec"`
		Status            json.RawMessage `json:"status"`
	}{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &parts); err != nil {
		return fmt.Errorf("decoding a PodChaperon: %w", err)
	}
	*c = PodChaperon{TypeMeta: parts.TypeMeta, ObjectMeta: parts.ObjectMeta}
	unknown, err := decodePart("spec", parts.Spec, &c.Spec)
	c.Unknown = unknownInSpec("spec.", unknown)
	_, statusErr := decodePart("status", parts.Status, &c.Status)
	if err = errors.Join(err, statusErr); err != nil {
		c.Unreadable = fmt.Sprintf("%.256s", err)
	}
	return nil
}

// decode decodes a text, and returns an error for each of the first fields that the type does not have.
func decode(data []byte, into any) (unknown []error, err error) {
	return kjson.UnmarshalStrict(data, into, kjson.DisallowUnknownFields)
}

// decodePart decodes the spec or the status, as decode does. If it cannot, it leaves the zero value.
func decodePart[T any](name string, data json.RawMessage, into *T) (unknown []error, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = checkQuantities(decoder, reflect.TypeFor[T]())
	if err == nil {
		unknown, err = decode(data, into)
	}
	if err != nil {
		*into = *new(T)
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return unknown, nil
}

// maxUnknown bounds how many fields Unknown names, and maxUnknownPath the bytes of each. Others choose them, and caches
// hold them.
const maxUnknown, maxUnknownPath = 8, 128

// unknownInSpec returns the paths of the fields of the spec among those that decode did not know. The prefix is that of
// the part that was decoded. Names of Kubernetes' own fields have few characters, and other characters are masked.
func unknownInSpec(prefix string, unknown []error) []string {
	var paths []string
	for _, err := range unknown {
		var at kjson.FieldError
		if len(paths) == maxUnknown || !errors.As(err, &at) || !strings.HasPrefix(prefix+at.FieldPath(), "spec.") {
			continue
		}
		path := prefix + at.FieldPath()
		path = strings.Map(func(r rune) rune {
			if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.[]", r)) {
				return r
			}
			return '?'
		}, path[:min(len(path), maxUnknownPath)])
		paths = append(paths, strings.Clone(path)) // It may be a part of a long text.
	}
	return paths
}

// mayBeCostly says whether the text may have a quantity with an exponent of more than three digits, or with more than
// maxDigits digits. Other texts, such as hashes, can look the same.
func mayBeCostly(data []byte) bool {
	return hasManyDigits(data) || mayHaveHugeExponent(data)
}

// maxDigits is how many digits a quantity may have in a row. The time to decode them grows with their square.
const maxDigits = 100

func hasManyDigits(data []byte) bool {
	n := 0
	for _, c := range data {
		if n++; !isDigit(c) {
			n = 0
		} else if n > maxDigits {
			return true
		}
	}
	return false
}

func mayHaveHugeExponent(data []byte) bool {
	const digits = 4
	for i := 1; i < len(data)-digits; i++ {
		if data[i]|' ' != 'e' || !isDigit(data[i-1]) && data[i-1] != '.' {
			continue
		}
		exponent := data[i+1:]
		if exponent[0] == '+' || exponent[0] == '-' {
			exponent = exponent[1:]
		}
		if len(exponent) >= digits && !bytes.ContainsFunc(exponent[:digits], func(r rune) bool {
			return r < '0' || r > '9'
		}) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// checkQuantities reads a value of the type, and returns an error if it has a costly quantity. The type
// is nil where no quantity can be.
func checkQuantities(decoder *json.Decoder, t reflect.Type) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	delimiter, ok := token.(json.Delim)
	if !ok {
		return checkQuantity(fmt.Sprint(token), t)
	}
	for decoder.More() {
		part := ""
		if delimiter == '{' {
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			part = fmt.Sprint(key)
		}
		if err := checkQuantities(decoder, partOf(t, part)); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

func checkQuantity(value string, t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[resource.Quantity]() && mayBeCostly([]byte(value)) {
		return fmt.Errorf("the quantity %.40q has too many digits, or its exponent is too large", value)
	}
	return nil
}

// partOf returns the type of a field, of the values of a map, or of the elements of a list. It returns nil if there is
// no such field.
func partOf(t reflect.Type, field string) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map, t.Kind() == reflect.Slice:
		return t.Elem()
	case t.Kind() != reflect.Struct:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == field {
			return f.Type
		}
		if f.Anonymous && name == "" {
			if part := partOf(f.Type, field); part != nil {
				return part
			}
		}
	}
	return nil
}
