package fit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// shortage returns the amount that none of the classes has, as in: has 4 free CPUs (largest: 1.5).
func (r *Room) shortage(d *Demand, classes []int) string {
	var lacking []string
	for i, q := range d.quantities {
		largest := Quantity{Name: q.Name, Amount: r.largest(q.Name, classes)}
		if q.Amount <= largest.Amount {
			continue
		}
		if i == 0 {
			return "takes another pod"
		}
		lacking = append(lacking, fmt.Sprintf("%s (largest: %s)", described(q, " free"), amount(largest)))
	}
	if len(lacking) > 0 {
		return "has " + strings.Join(lacking, ", nor ")
	}
	return r.together(d, classes)
}

func (r *Room) largest(name corev1.ResourceName, classes []int) int64 {
	var largest int64
	if column := slices.Index(r.names, name); column >= 0 {
		for _, i := range classes {
			largest = max(largest, r.classes[i].largest[column])
		}
	}
	return largest
}

// together returns the shortage if each resource is free in the demanded amount, but not on the same node.
func (r *Room) together(d *Demand, classes []int) string {
	columns, _ := r.columns(d, nil)
	wanted := make([]string, 0, len(d.quantities))
	for _, q := range d.Quantities() {
		wanted = append(wanted, described(q, " free"))
	}
	nearest, _ := r.nearest(d, classes, columns)
	has := make([]string, 0, len(d.quantities))
	for i, q := range d.Quantities() {
		if free := nearest[columns[i+1]]; free != unlimited {
			has = append(has, described(Quantity{q.Name, max(free, 0)}, ""))
		}
	}
	if len(wanted) == 1 {
		return fmt.Sprintf("has %s and takes another pod", wanted[0])
	}
	if nearest[columns[0]] <= 0 {
		return fmt.Sprintf("has %s together and takes another pod", joined(wanted))
	}
	return fmt.Sprintf("has %s together (nearest: %s)", joined(wanted), joined(has))
}

// nearest returns the free amounts of the node that comes nearest to the demand, and which part of it they are: of the
// resources that the node lacks, it has the largest part.
func (r *Room) nearest(d *Demand, classes, columns []int) (nearest []int64, most float64) {
	most = -1
	for _, i := range classes {
		for _, v := range r.classes[i].free {
			part := 1.0
			for k, column := range columns {
				part = min(part, float64(v.amounts[column])/float64(d.quantities[k].Amount))
			}
			if part > most || nearest == nil {
				nearest, most = v.amounts, part
			}
		}
	}
	return nearest, most
}

func joined(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}

// shown is the length up to which constraints are shown to users in full.
const shown = 80

// text returns the constraints, for users to read.
func (c *constraints) text() string {
	var parts []string
	if len(c.nodeSelector) > 0 {
		parts = append(parts, labels.FormatLabels(c.nodeSelector))
	}
	if c.required != nil {
		parts = append(parts, affinityText(c.required))
	}
	if text := strings.Join(parts, " and "); len(text) <= shown {
		return text
	}
	switch {
	case c.required == nil:
		return "the pod's node selector"
	case len(c.nodeSelector) == 0:
		return "the pod's node affinity"
	}
	return "the pod's node selector and affinity"
}

func affinityText(required *corev1.NodeSelector) string {
	if len(required.NodeSelectorTerms) != 1 {
		return "the pod's node affinity"
	}
	term := &required.NodeSelectorTerms[0]
	parts := make([]string, 0, len(term.MatchExpressions)+len(term.MatchFields))
	for _, requirement := range slices.Concat(term.MatchExpressions, term.MatchFields) {
		text, ok := requirementText(&requirement)
		if !ok {
			return "the pod's node affinity"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "the pod's node affinity"
	}
	return strings.Join(parts, ",")
}

func requirementText(r *corev1.NodeSelectorRequirement) (string, bool) {
	operator := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
		corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
	}[r.Operator]
	if len(r.Values) == 1 && operator == selection.In {
		operator = selection.Equals
	}
	parsed, err := labels.NewRequirement(r.Key, operator, r.Values)
	if err != nil {
		return "", false
	}
	return parsed.String(), true
}
