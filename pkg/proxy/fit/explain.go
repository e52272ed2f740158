package fit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Explain returns, for users to read, why the pod does not fit: a text that follows the name of the target. It is empty
// if the pod fits.
func (r *Room) Explain(d *Demand) string {
	switch {
	case r == nil:
		return "its capacity is not known yet"
	case r.Fits(d):
		return ""
	}
	v := r.view(d)
	switch {
	case v.all == 0:
		return "it has no nodes"
	case v.matching == 0:
		return "no node matches " + d.constraints.text()
	case len(v.open) == 0:
		return v.kept()
	case r.Unsure(d):
		return "it does not tell whether one of its nodes with room matches " + d.constraints.text()
	}
	return v.without(r.shortage(d, v.open))
}

// view is the target as a pod sees it: which nodes match, which have room, and which keep the pod away.
type view struct {
	text          string // of the pod's constraints
	all, matching int    // nodes
	published     bool   // whether it is certain that they match
	keeping       []keeping
	open          []int // classes that match, certainly or not, and that no taint keeps the pod away from
}

// keeping is a reason why some of the matching nodes keep the pod away.
type keeping struct {
	what, one string // as in: are cordoned, is cordoned
	nodes     int
}

func (r *Room) view(d *Demand) view {
	v := view{text: d.constraints.text(), published: true}
	for i, why := range r.shape.match(&d.constraints).reasons {
		nodes := r.classes[i].nodes
		v.all += nodes
		if nodes == 0 || why.affinity == no {
			continue
		}
		v.matching += nodes
		v.published = v.published && why.affinity == yes
		if why.taint < 0 {
			v.open = append(v.open, i)
			continue
		}
		v.keep(keptBy(&r.shape.kinds[i].taints[why.taint]), nodes)
	}
	slices.SortStableFunc(v.keeping, func(a, b keeping) int { return b.nodes - a.nodes })
	return v
}

func (v *view) keep(k keeping, nodes int) {
	i := slices.IndexFunc(v.keeping, func(other keeping) bool { return other.what == k.what })
	if i < 0 {
		i, v.keeping = len(v.keeping), append(v.keeping, k)
	}
	v.keeping[i].nodes += nodes
}

// keptBy returns the reason that a taint stands for, in the words that users know.
func keptBy(taint *corev1.Taint) keeping {
	switch taint.Key {
	case corev1.TaintNodeUnschedulable:
		return keeping{what: "are cordoned", one: "is cordoned"}
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return keeping{what: "are not ready", one: "is not ready"}
	}
	text := " the taint " + taint.ToString() + ", which the pod does not tolerate"
	return keeping{what: "have" + text, one: "has" + text}
}

func (k *keeping) verb() string {
	if k.nodes == 1 {
		return k.one
	}
	return k.what
}

// kept returns the reason if taints keep the pod away from all matching nodes.
func (v *view) kept() string {
	if len(v.keeping) == 1 {
		return v.its() + " " + v.keeping[0].verb()
	}
	return v.of() + v.separator() + v.list()
}

// without returns the reason if all nodes that are open to the pod have a shortage.
func (v *view) without(shortage string) string {
	if v.matching == v.all && len(v.keeping) == 0 {
		return "no node " + shortage
	}
	if len(v.keeping) == 0 {
		return v.of() + ", and none of these " + shortage
	}
	return v.of() + v.separator() + v.list() + ", and none of the others " + shortage
}

// its names the matching nodes.
func (v *view) its() string {
	nodes := fmt.Sprintf("its %d nodes", v.matching)
	switch {
	case v.all == 1:
		nodes = "its only node"
	case v.matching == 1:
		nodes = "its 1 node"
	}
	if v.matching == v.all {
		return nodes
	}
	return nodes + " that " + v.match()
}

// of says how many of all nodes match.
func (v *view) of() string {
	if v.matching == v.all {
		return fmt.Sprintf("of its %d nodes", v.all)
	}
	return fmt.Sprintf("of its %d nodes, %d %s", v.all, v.matching, v.match())
}

func (v *view) match() string {
	switch {
	case !v.published:
		return "may match " + v.text
	case v.matching == 1:
		return "matches " + v.text
	}
	return "match " + v.text
}

func (v *view) separator() string {
	if v.matching == v.all {
		return ", "
	}
	return "; of these, "
}

func (v *view) list() string {
	parts := make([]string, len(v.keeping))
	for i := range v.keeping {
		parts[i] = fmt.Sprintf("%d %s", v.keeping[i].nodes, v.keeping[i].verb())
	}
	return strings.Join(parts, ", ")
}
