package plainyaml

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"YAML":                     {text: "a: 1\nb: [x, y]\n"},
		"JSON":                     {text: `{"a": "*", "b": ["*x"]}`},
		"nothing":                  {},
		"asterisks that name none": {text: "a: '*x'\nb: 2 * 3 # *x\nc: |\n  *x\n"},
		"an anchor alone":          {text: "a: &x 1\nb: '*'\n"},
		"an alias": {
			text: "a: &x 1\nb: *x\n", want: "line 2 has the alias *x",
		},
		"an alias in a list in a map": {text: "a: &x [1]\nb: {c: [2, *x]}\n", want: "*x"},
		"an alias as a key":           {text: "a: &x k\n*x : 1\n", want: "*x"},
		"a merged map":                {text: "a: &x {k: 1}\nb:\n  <<: *x\n", want: "*x"},
		"an alias of nothing":         {text: "a: *x\n", want: "reading YAML"},
		"a tab":                       {text: "a: *x\n\tb: 1\n", want: "reading YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]byte(test.text))
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
