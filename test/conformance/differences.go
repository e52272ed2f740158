package main

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"sigs.k8s.io/yaml"
)

//go:embed differences.yaml
var differencesFile []byte

// Kinds of justified differences.
const (
	byDesign = "design"
	notYet   = "not yet"
)

// justification says why some fields of some cases differ. All patterns match whole texts.
type justification struct {
	// Cases and Field are patterns.
	Cases string `json:"cases"`
	Field string `json:"field"`
	// Plain and Elected are patterns of the values. If one is empty, any value matches.
	Plain   string `json:"plain"`
	Elected string `json:"elected"`
	// Name is what the report calls the field.
	Name string `json:"name"`
	// Why is the reason, for users.
	Why string `json:"why"`
	// Kind is "design", or "not yet": a defect that is known.
	Kind string `json:"kind"`
	// Sometimes says that the difference is a matter of chance. It need not be there.
	Sometimes bool `json:"sometimes"`
	// TwoVersions says that the difference is one between versions of Kubernetes, and has nothing to do with the
	// product. It counts only where source and target have different versions. Such entries are the last ones of the
	// file.
	TwoVersions bool `json:"twoVersions"`

	cases, field, plain, elected *regexp.Regexp
}

// justifications reads differences.yaml.
func justifications(content []byte) ([]*justification, error) {
	var list []*justification
	if err := yaml.UnmarshalStrict(content, &list); err != nil {
		return nil, fmt.Errorf("decoding the differences: %w", err)
	}
	for _, j := range list {
		if err := j.compile(); err != nil {
			return nil, fmt.Errorf("difference %q: %w", j.Name, err)
		}
	}
	return list, nil
}

// ofOneVersion returns those that count where source and target have the same version of Kubernetes.
func ofOneVersion(list []*justification) []*justification {
	return slices.DeleteFunc(slices.Clone(list), func(j *justification) bool { return j.TwoVersions })
}

func (j *justification) compile() error {
	if j.Cases == "" || j.Field == "" || j.Why == "" || j.Name == "" {
		return errors.New("it lacks cases, a field, a name or a reason")
	}
	if j.Kind != byDesign && j.Kind != notYet {
		return fmt.Errorf("its kind is %q", j.Kind)
	}
	for _, p := range []struct {
		text string
		to   **regexp.Regexp
	}{{j.Cases, &j.cases}, {j.Field, &j.field}, {j.Plain, &j.plain}, {j.Elected, &j.elected}} {
		if p.text == "" {
			p.text = ".*"
		}
		compiled, err := regexp.Compile("(?s)^(" + p.text + ")$")
		if err != nil {
			return fmt.Errorf("compiling a pattern: %w", err)
		}
		*p.to = compiled
	}
	return nil
}

// matches says whether the justification is for the difference of a case.
func (j *justification) matches(name string, d difference) bool {
	return j.cases.MatchString(name) && j.field.MatchString(d.Field) &&
		j.plain.MatchString(d.Plain) && j.elected.MatchString(d.Elected)
}

// justified finds the first justification of each difference. The rest has none.
func justified(list []*justification, name string, found []difference) (by []*justification, rest []difference) {
	seen := map[*justification]bool{}
	for _, d := range found {
		j := first(list, name, d)
		if j == nil {
			rest = append(rest, d)
		} else if !seen[j] {
			seen[j] = true
			by = append(by, j)
		}
	}
	return by, rest
}

func first(list []*justification, name string, d difference) *justification {
	for _, j := range list {
		if j.matches(name, d) {
			return j
		}
	}
	return nil
}
