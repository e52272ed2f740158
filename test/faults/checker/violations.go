package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Violation is a promise that was broken.
type Violation struct {
	At   time.Time
	Rule Rule
	Text string
	// Trace says what the objects of the pod became, in all clusters, if the violation is of one pod.
	Trace []string
}

// String returns the violation, and under it the trace of its pod.
func (v Violation) String() string {
	text := fmt.Sprintf("%s %s: %s", v.At.Format("15:04:05.000"), v.Rule, v.Text)
	for _, line := range v.Trace {
		text += "\n    " + line
	}
	return text
}

// Rule is the name of a promise, as the report lists it.
type Rule string

// The rules.
const (
	OnePerProxy    Rule = "at most one delegate of a proxy runs"
	RunsOnce       Rule = "a delegate begins only if no other one of its proxy ran before"
	OnePerOrdinal  Rule = "at most one pod of an ordinal of a StatefulSet runs"
	OnePerFence    Rule = "a fenced pod that waits for long enough is replaced when it has ended"
	NoneLost       Rule = "no pod goes unless somebody asked for it"
	Terminal       Rule = "what has finished stays as it is"
	ExitCodes      Rule = "no exit code and no completion is lost or invented"
	Budgets        Rule = "budgets are kept"
	Converges      Rule = "each proxy has its delegate, and each delegate its proxy, in time"
	Notices        Rule = "a target that cannot be reached is noticed in time"
	NothingIsStuck Rule = "nothing is left that cannot be deleted"
	EndsFirst      Rule = "a pod goes only when its delegate has ended"
	Readiness      Rule = "no readiness is invented"
	StaysReady     Rule = "a virtual node is Ready unless its target is lost"
	NoFalseAlarm   Rule = "a target says that it was set back only if it was"
)

// Violations returns the promises that were broken so far.
func (h *History) Violations() []Violation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.violations)
}

// Violate adds a violation that the caller found. Another of the same rule and text is not added.
func (h *History) Violate(rule Rule, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violate(rule, format, args...)
}

// ViolateOf is Violate for a promise about the pods of a controller, whose names begin with its own.
func (h *History) ViolateOf(controller string, rule Rule, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pods []types.UID
	for uid, p := range h.proxies {
		if strings.HasPrefix(p.name, controller+"-") {
			pods = append(pods, uid)
		}
	}
	slices.Sort(pods)
	h.add(rule, pods, format, args...)
}

func (h *History) violate(rule Rule, format string, args ...any) {
	h.add(rule, nil, format, args...)
}

// violateOf is violate for a promise about one proxy.
func (h *History) violateOf(proxy types.UID, rule Rule, format string, args ...any) {
	h.add(rule, []types.UID{proxy}, format, args...)
}

// add adds a violation with the traces of proxies.
func (h *History) add(rule Rule, proxies []types.UID, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	key := string(rule) + text
	if h.reported[key] {
		return
	}
	h.reported[key] = true
	h.violations = append(h.violations, Violation{h.now(), rule, text, h.tracesOf(proxies)})
}
