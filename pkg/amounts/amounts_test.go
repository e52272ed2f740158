package amounts

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestCut(t *testing.T) {
	digits := strings.Repeat("7", 100)
	for name, test := range map[string]struct{ text, want string }{
		"ordinary amounts": {
			text: `{"requests":{"cpu":"1500m","memory":"1.5Gi","a":"-1e3","b":" 2E+10 ","c":3,"d":1e9}}`,
		},
		"a panic": {
			text: `{"requests":{"cpu":"10000000000000000001e2147483639"}}`,
			want: `{"requests":{"cpu":"10000000000000000001e21        "}}`,
		},
		"a large exponent": {
			text: `{"limits" : { "cpu" : "1E1999999998" } , "overhead":{"b":"1e100","c":"1e99"}}`,
			want: `{"limits" : { "cpu" : "1E19        " } , "overhead":{"b":"1e10 ","c":"1e99"}}`,
		},
		"a small exponent": {
			text: `{"capacity":{"cpu":"-.5e-999999999","b":"1e+123"}}`,
			want: `{"capacity":{"cpu":"-.5e-99       ","b":"1e+12 "}}`,
		},
		"zeros before the exponent": {
			text: `{"requested":{"a":"1e0000003","b":"1e0000000000003"}}`,
			want: `{"requested":{"a":"1e0000003","b":"1e0000000000   "}}`,
		},
		"numbers": {
			text: `{"requests":{"a":1e-999999999,"b":1e1234,"c":null,"d":true}}`,
			want: `{"requests":{"a":1e-99       ,"b":1e12  ,"c":null,"d":true}}`,
		},
		"many digits": {
			text: `{"allocatable":{"a":"` + digits + `Gi"}}`,
			want: `{"allocatable":{"a":"` + digits[:maxLength] + strings.Repeat(" ", 38) + `"}}`,
		},
		"escaped characters": {
			text: `{"requests":{"a":"1\u0065999\"","b":"1e1234"}}`,
			want: `{"requests":{"a":"1           ","b":"1e12  "}}`,
		},
		"escaped keys": {
			text: `{"\u0072equest\u0073":{"cpu":"1e1234"},"\"":{"cpu":"1e1234"}}`,
			want: `{"\u0072equest\u0073":{"cpu":"1e12  "},"\"":{"cpu":"1e1234"}}`,
		},
		"arrays of lists, and others": {
			text: `{"empty":[{"a":"1e1234"},{"b":"1","c":"1e1234"}],"x":[{"a":"1e1234"}],"y":[["1e1234"]]}`,
			want: `{"empty":[{"a":"1e12  "},{"b":"1","c":"1e12  "}],"x":[{"a":"1e1234"}],"y":[["1e1234"]]}`,
		},
		"keys in other cases": {
			text: `{"Requestſ":{"cpu":"1e1234"},"x":[{"QUANTITY":"1e1234"}],"EmptyDir":{"sizelimit":"1e1234"}}`,
			want: `{"Requestſ":{"cpu":"1e12  "},"x":[{"QUANTITY":"1e12  "}],"EmptyDir":{"sizelimit":"1e12  "}}`,
		},
		"texts that are no amounts": {
			text: `{"name":"12e4567","labels":{"requests":"12e4567","divisor":"12e4567"},"env":[{"value":"12e4567"}]}`,
		},
		"names beside amounts": {
			text: `{"resources":{"claims":[{"name":"12e4567"}],"limits":{"a":"1e1234"}},"x":"1e1234"}`,
			want: `{"resources":{"claims":[{"name":"12e4567"}],"limits":{"a":"1e12  "}},"x":"1e1234"}`,
		},
		"objects with one amount": {
			text: `{"resourceFieldRef":{"containerName":"12e4567","divisor":"1e1234"},"emptyDir":{"sizeLimit":1e1234}}`,
			want: `{"resourceFieldRef":{"containerName":"12e4567","divisor":"1e12  "},"emptyDir":{"sizeLimit":1e12  }}`,
		},
		"amounts in arrays": {
			text: `{"x":[{"quantity":"1e1234","name":"12e4567"}],"y":[[{"perPod":"1e1234"}]],"quantity":"12e4567"}`,
			want: `{"x":[{"quantity":"1e12  ","name":"12e4567"}],"y":[[{"perPod":"1e12  "}]],"quantity":"12e4567"}`,
		},
		"white space around numbers": {
			text: "{\"requests\" :\n{\t\"a\":\r\n\t" + strings.Repeat(" ", maxLength) + "1e3\t,\"b\": 1\n}\n}",
		},
		"the next event of a watch": {text: `{"requests":1}{"name":"12e4567"}`},
		"amounts after nested objects": {
			text: `[{"requests":{"x":{"requests":{}},"y":[{}],"cpu":"1e1234"}},{"cpu":"1e1234"}]`,
			want: `[{"requests":{"x":{"requests":{}},"y":[{}],"cpu":"1e12  "}},{"cpu":"1e1234"}]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := test.want
			if want == "" {
				want = test.text
			}
			for _, size := range []int{1, 3, len(test.text)} {
				if got := cutIn(test.text, size); got != want {
					t.Errorf("in parts of %d bytes:\n got %s\nwant %s", size, got, want)
				}
			}
			raw := []byte(test.text)
			if err := Check(raw); (err == nil) != (test.want == "") || string(raw) != test.text {
				t.Errorf("it is refused with: %v; it is now %s", err, raw)
			}
		})
	}
}

// cutIn returns the text, cut in parts of this size.
func cutIn(text string, size int) string {
	var c Cutter
	p := []byte(text)
	for i := 0; i < len(p); i += size {
		c.Cut(p[i:min(i+size, len(p))])
	}
	return string(p)
}

func TestARefusalNamesTheResource(t *testing.T) {
	err := Check([]byte(`{"requests":{"memory":"1e1000","cpu":"1"}}`))
	if err == nil || !strings.Contains(err.Error(), `"memory"`) {
		t.Errorf("got %v", err)
	}
}

func TestNoMoreIsKeptOfAKeyThanNamesNeed(t *testing.T) {
	var c Cutter
	for range 100 {
		c.Cut([]byte(`{"` + strings.Repeat("a", maxKey/2)))
		c.Cut([]byte(strings.Repeat("a", 10*maxKey)))
		c.Cut([]byte(strings.Repeat(`\\`, 10*maxKey) + `":`))
	}
	if len(c.key) > maxKey+1 {
		t.Errorf("%d bytes are kept", len(c.key))
	}
}

func TestIsSound(t *testing.T) {
	for amount, want := range map[string]bool{
		"1": true, "1500m": true, "1e99": true, "1e100": false, "10000000000000000001e2147483639": false,
		"1e-999999999": false, strings.Repeat("1", maxLength+1): false, "": true,
		strings.Repeat("1", maxLength) + "Gi": true, // The suffix counts for itself.
	} {
		if got := IsSound(amount); got != want {
			t.Errorf("%q: got %v", amount, got)
		}
	}
}

// TestAllAmountsAreKnown compares the keys with the types of all objects that one cluster reads of another.
func TestAllAmountsAreKnown(t *testing.T) {
	found := 0
	for _, object := range []any{
		v1alpha1.PodChaperon{}, v1alpha1.ClusterSummary{}, v1alpha1.SourceGrant{}, corev1.Pod{}, corev1.Service{},
		corev1.ConfigMap{}, corev1.Secret{}, corev1.ServiceAccount{}, corev1.PersistentVolumeClaim{},
		discoveryv1.EndpointSlice{}, networkingv1.Ingress{}, storagev1.StorageClass{},
	} {
		for _, value := range withAmounts(reflect.TypeOf(object), nil) {
			found++
			raw, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if Check(raw) == nil {
				t.Errorf("%T: this amount is not found: %s", object, raw)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d amounts in the types", found)
	}
}

// withAmounts returns a value for each amount that a type can have: with this amount only.
func withAmounts(of reflect.Type, above []reflect.Type) (values []any) {
	if of == reflect.TypeFor[resource.Quantity]() {
		return []any{"1e-999999999"}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return withAmounts(of.Elem(), above)
	case reflect.Slice, reflect.Array:
		for _, value := range withAmounts(of.Elem(), above) {
			values = append(values, []any{value})
		}
	case reflect.Map:
		for _, value := range withAmounts(of.Elem(), above) {
			values = append(values, map[string]any{"key": value})
		}
	case reflect.Struct:
		for _, a := range above {
			if a == of {
				return nil
			}
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			for _, value := range withAmounts(of.Field(i).Type, append(above, of)) {
				if name != "" {
					value = map[string]any{name: value}
				}
				values = append(values, value)
			}
		}
	default:
	}
	return values
}

func FuzzCut(f *testing.F) {
	for _, seed := range []string{
		`{"requests":{"cpu":"10000000000000000001e2147483639","a":"1\u0065999\"","b":1e1234,"c":null}}`,
		`{"\u0072equests":{"cpu":"1e-999999999"},"x":[{"limits":{"a":"1"}}]}`,
		`{"x":1e1000,"limits":{"a":` + strings.Repeat("7", maxLength-1) + `.5}}`,
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		cut := cutIn(text, max(1, len(text)))
		if parts := cutIn(text, int(size)+1); parts != cut {
			t.Errorf("the parts matter: %q, %q", cut, parts)
		}
		if !json.Valid([]byte(text)) {
			return
		}
		if !json.Valid([]byte(cut)) || Check([]byte(text)) == nil && text != cut {
			t.Errorf("%q became %q", text, cut)
		}
		object := struct { // Decoding neither panics nor takes long.
			Requests, Limits map[string]resource.Quantity
		}{}
		_ = json.Unmarshal([]byte(cut), &object)
	})
}

func BenchmarkCut(b *testing.B) {
	p := []byte(strings.Repeat(`{"labels":{"key":"value"},"resources":{"requests":{"cpu":"100m"}},"n":1},`, 1000))
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		var c Cutter
		c.Cut(p)
	}
}
