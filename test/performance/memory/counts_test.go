package main

import "testing"

func TestRequestsThatNeverEndAreNoWritesToWaitFor(t *testing.T) {
	s := state{Traffic: map[string]traffic{
		"create selfsubjectreviews": {Requests: 16},
		"update leases":             {Requests: 8},
		"list pods":                 {Requests: 4},
		"create podchaperons":       {Requests: 2},
		"patch podchaperons":        {Requests: 1},
	}}
	if n := s.writes(); n != 3 {
		t.Errorf("got %d writes, want 3", n)
	}
}
