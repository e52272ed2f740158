package translate

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxLostFields is how many fields LostFields returns. The rest adds nothing: one is reason enough to look.
const MaxLostFields = 8

// LostFields returns the paths of fields that the wished spec sets, and the stored one does not have. An API server
// drops fields silently that its version of Kubernetes does not know, or has disabled. A mutating webhook may remove
// fields, too. Fields that have another value are not lost.
func LostFields(wished, stored *corev1.PodSpec) []string {
	c := &lostFields{}
	c.object(reflect.ValueOf(wished).Elem(), reflect.ValueOf(stored).Elem(), "spec")
	return c.paths
}

// lostFields walks over two objects of the same type. It costs some microseconds a pod, because it decodes nothing.
type lostFields struct {
	paths []string
}

func (c *lostFields) add(path string) {
	if len(c.paths) < MaxLostFields {
		c.paths = append(c.paths, path)
	}
}

// object compares the fields of structs.
func (c *lostFields) object(wished, stored reflect.Value, path string) {
	for i := range wished.NumField() {
		if isReplaced(stored, i) {
			continue
		}
		field := wished.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := path
		if name != "" { // Otherwise, the fields of an embedded struct are those of the object around it.
			at += "." + name
		}
		if field.Type.Kind() == reflect.Slice {
			c.list(wished.Field(i), stored.Field(i), at, field.Tag.Get("patchMergeKey"))
			continue
		}
		c.value(wished.Field(i), stored.Field(i), at)
	}
}

func (c *lostFields) value(wished, stored reflect.Value, path string) {
	switch {
	case empty(wished), asBefore(wished):
	case wished.Kind() == reflect.Pointer && !stored.IsNil():
		c.value(wished.Elem(), stored.Elem(), path)
	case empty(stored) && !isStruct(wished): // An object that is there names the fields that it lacks.
		c.add(path)
	case wished.Kind() == reflect.Map:
		for _, key := range wished.MapKeys() {
			if !stored.MapIndex(key).IsValid() {
				c.add(fmt.Sprintf("%s[%s]", path, key))
			}
		}
	case isStruct(wished):
		c.object(wished, stored, path)
	}
}

// list compares each element with the one that has the same key. Elements without a key are compared in their order,
// and only if there are as many: a webhook may have added some anywhere. Another command is another value, and so are
// other tolerations: admission plugins merge them.
func (c *lostFields) list(wished, stored reflect.Value, path, key string) {
	of := wished.Type().Elem()
	isValue := of.Kind() != reflect.Struct || of == reflect.TypeFor[corev1.Toleration]()
	if wished.Len() > stored.Len() && key == "" {
		if !isValue || stored.Len() == 0 {
			c.add(path)
		}
		return
	}
	for i := range wished.Len() {
		switch at := fmt.Sprintf("%s[%d]", path, i); {
		case isValue, key == "" && wished.Len() != stored.Len():
		case key == "":
			c.object(wished.Index(i), stored.Index(i), at)
		default:
			name := keyOf(wished.Index(i), key)
			at = fmt.Sprintf("%s[%s]", path, name)
			if same := withKey(stored, key, name, i); same.IsValid() {
				c.object(wished.Index(i), same, at)
			} else {
				c.add(at)
			}
		}
	}
}

// isReplaced says whether a field of the stored object is empty because it has another value: of these objects, one
// field beside the name is set. Meshes replace probes and variables.
func isReplaced(stored reflect.Value, field int) bool {
	switch stored.Interface().(type) {
	case corev1.ProbeHandler, corev1.LifecycleHandler, corev1.VolumeSource, corev1.EnvVar:
	default:
		return false
	}
	if !empty(stored.Field(field)) {
		return false
	}
	for i := range stored.NumField() {
		if i != field && stored.Type().Field(i).Name != "Name" && !empty(stored.Field(i)) {
			return true
		}
	}
	return false
}

// withKey returns the element that has the key: the one at the place, if it has it.
func withKey(list reflect.Value, key, name string, place int) reflect.Value {
	if place < list.Len() && keyOf(list.Index(place), key) == name {
		return list.Index(place)
	}
	for i := range list.Len() {
		if keyOf(list.Index(i), key) == name {
			return list.Index(i)
		}
	}
	return reflect.Value{}
}

// keyOf returns the value of the field that has the key's name in JSON.
func keyOf(element reflect.Value, key string) string {
	field, found := element.Type().FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, key) })
	if !found {
		return ""
	}
	return fmt.Sprint(element.FieldByIndex(field.Index))
}

// asBefore says whether a value of a newer field says what kubelets do that do not know the field. API servers that
// know it write such a value into each pod, whether or not users asked for it.
func asBefore(value reflect.Value) bool {
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return false
	}
	switch v := value.Elem().Interface().(type) {
	case corev1.HTTPProtocol:
		return v == corev1.HTTPProtocolHTTP1
	case corev1.GRPCProbeMode:
		return v == corev1.GRPCProbeModePlaintext
	}
	return false
}

// empty says whether nothing is lost if an API server drops the value. A pointer to an empty object is such a value:
// the API servers of some versions keep it, and those of others do not.
func empty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Pointer:
		return value.IsNil() || isStruct(value.Elem()) && empty(value.Elem())
	case reflect.Map, reflect.Slice:
		return value.Len() == 0
	case reflect.Struct:
		if quantity, ok := value.Interface().(resource.Quantity); ok {
			return quantity.IsZero()
		}
		if !isStruct(value) {
			return value.IsZero()
		}
		for i := range value.NumField() {
			if !empty(value.Field(i)) {
				return false
			}
		}
		return true
	default:
		return value.IsZero()
	}
}

// isStruct says whether the value is an object with fields of its own.
func isStruct(value reflect.Value) bool {
	return value.Kind() == reflect.Struct && value.Type() != reflect.TypeFor[resource.Quantity]() &&
		value.Type() != reflect.TypeFor[intstr.IntOrString]()
}
