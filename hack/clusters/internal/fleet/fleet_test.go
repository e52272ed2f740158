package fleet

import "testing"

func TestCheckNames(t *testing.T) {
	for _, name := range []string{"c1", "edge", "eu-west-1"} {
		if err := CheckNames([]string{name}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "1c", "C1", "a b", "a/b", "c1-", "hub", "machine", "br0", "far-too-long-a-name"} {
		if err := CheckNames([]string{name}); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
