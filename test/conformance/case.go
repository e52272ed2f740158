package main

import (
	"context"
	"fmt"
	"regexp"
)

// testCase is a manifest or an action, which runs once plain and once elected.
type testCase struct {
	name, topic, what string
	// short cases are part of the short form.
	short bool
	// alone says that the case runs when all others have ended, because it touches nodes.
	alone bool
	// containerd2 says that nodes need containerd 2.
	containerd2 bool
	// fields are the fields of the pod that a manifest sets.
	fields []string
	// begin makes the case's objects, acts, and waits for the effect.
	begin func(ctx context.Context, s *side) error
	// see returns what is compared. It may be called again.
	see func(ctx context.Context, s *side) (tree, error)
}

// selected returns the cases that a run has: the short ones, or all, whose name matches, and with which the nodes of
// the clusters can cope.
func selected(
	cases []*testCase, short bool, names *regexp.Regexp, containerd2 bool,
) (together, alone, missed []*testCase) {
	for _, c := range cases {
		switch {
		case short && !c.short, !names.MatchString(c.name):
		case c.containerd2 && !containerd2:
			missed = append(missed, c)
		case c.alone:
			alone = append(alone, c)
		default:
			together = append(together, c)
		}
	}
	return together, alone, missed
}

// allCases returns the manifests and the actions.
func allCases() ([]*testCase, error) {
	cases, err := manifests()
	if err != nil {
		return nil, err
	}
	cases = append(cases, actions()...)
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.name] {
			return nil, fmt.Errorf("two cases are called %s", c.name)
		}
		seen[c.name] = true
	}
	return cases, nil
}
