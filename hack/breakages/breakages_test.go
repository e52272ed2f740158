package main

import "testing"

// TestEveryBreakageStillBreaksOnePlace fails when the product has changed where a breakage is.
func TestEveryBreakageStillBreaksOnePlace(t *testing.T) {
	t.Chdir("../..")
	for _, b := range all() {
		if _, err := b.apply(); err != nil {
			t.Error(err)
		}
	}
}
