package fit

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestNodeSelectorsAndAffinity(t *testing.T) {
	const (
		in, notIn            = corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn
		exists, doesNotExist = corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist
		gt, lt               = corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt
		host                 = corev1.LabelHostname
	)
	both := needs(all(expression("gpu", exists)))
	both.NodeSelector = map[string]string{host: "n1"}
	preferred := translate.Constraints{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}
	tests := map[string]struct {
		constraints translate.Constraints
		want        decision
	}{
		"no constraints match":                           {translate.Constraints{}, yes},
		"preferences do not matter":                      {preferred, yes},
		"a listed label is selected":                     {selects("gpu=a100"), yes},
		"a label that all nodes have is selected":        {selects("kubernetes.io/os=linux", "gpu=a100"), yes},
		"another value is not selected":                  {selects("gpu=h100"), no},
		"a label that no node has is not selected":       {selects("spot=true"), no},
		"one of two selected labels is missing":          {selects("gpu=a100", "spot=true"), no},
		"an omitted label may be selected":               {selects(host + "=n1"), unknown},
		"an omitted label does not outweigh a known one": {selects(host+"=n1", "gpu=h100"), no},

		"In, one of the values":                      {needs(all(expression("gpu", in, "h100", "a100"))), yes},
		"In, none of the values":                     {needs(all(expression("gpu", in, "h100"))), no},
		"In, no such label":                          {needs(all(expression("spot", in, "true"))), no},
		"In, an omitted label":                       {needs(all(expression(host, in, "n1"))), unknown},
		"NotIn, none of the values":                  {needs(all(expression("gpu", notIn, "h100"))), yes},
		"NotIn, one of the values":                   {needs(all(expression("gpu", notIn, "a100"))), no},
		"NotIn, no such label":                       {needs(all(expression("spot", notIn, "true"))), yes},
		"NotIn, an omitted label":                    {needs(all(expression(host, notIn, "n1"))), unknown},
		"Exists, the label does":                     {needs(all(expression("gpu", exists))), yes},
		"Exists, the label does not":                 {needs(all(expression("spot", exists))), no},
		"Exists, an omitted label":                   {needs(all(expression(host, exists))), unknown},
		"DoesNotExist, the label does not":           {needs(all(expression("spot", doesNotExist))), yes},
		"DoesNotExist, the label does":               {needs(all(expression("gpu", doesNotExist))), no},
		"DoesNotExist, an omitted label":             {needs(all(expression(host, doesNotExist))), unknown},
		"Gt, a greater value":                        {needs(all(expression("cores", gt, "15"))), yes},
		"Gt, an equal value":                         {needs(all(expression("cores", gt, "16"))), no},
		"Gt, a value that is no number":              {needs(all(expression("gpu", gt, "15"))), no},
		"Gt, an omitted label":                       {needs(all(expression(host, gt, "15"))), unknown},
		"Lt, a lesser value":                         {needs(all(expression("cores", lt, "17"))), yes},
		"Lt, an equal value":                         {needs(all(expression("cores", lt, "16"))), no},
		"Lt, no such label":                          {needs(all(expression("spot", lt, "16"))), no},
		"a node's name is unknown":                   {needs(named(in, "n1")), unknown},
		"whether a node has another name is unknown": {needs(named(notIn, "n1")), unknown},
		"all expressions of a term must match": {
			needs(all(expression("gpu", exists), expression("spot", exists))),
			no,
		},
		"a false expression outweighs an unknown one": {
			needs(all(expression(host, exists), expression("spot", exists))),
			no,
		},
		"a true expression does not outweigh an unknown one": {
			needs(all(expression(host, exists), expression("gpu", exists))),
			unknown,
		},

		"one of two terms is enough": {
			needs(all(expression("spot", exists)), all(expression("gpu", exists))),
			yes,
		},
		"an unknown term beside a true one": {needs(named(in, "n1"), all(expression("gpu", exists))), yes},
		"an unknown term beside a false one": {
			needs(named(in, "n1"), all(expression("spot", exists))),
			unknown,
		},
		"an empty term matches nothing":            {needs(corev1.NodeSelectorTerm{}), no},
		"no terms match nothing":                   {needs(), no},
		"an operator that does not exist":          {needs(all(expression("gpu", "Like", "a100"))), no},
		"Gt, a limit that is no number":            {needs(all(expression("cores", gt, "many"))), no},
		"an error outweighs an unknown expression": {needs(all(expression(host, gt, "many"))), no},
		"an error in a field's operator":           {needs(named(gt, "n1")), no},
		"two names of nodes at once":               {needs(named(in, "n1", "n2")), no},
		"an error in one term, and another term that matches": {
			needs(all(expression("gpu", "Like")), all(expression("gpu", exists))),
			yes,
		},
		"the selector is unknown, the affinity is not": {both, unknown},
	}
	labels := map[string]string{"kubernetes.io/os": "linux", "gpu": "a100", "cores": "16"}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newConstraints(test.constraints)
			if got := c.match(labels, []string{host}); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			d := demands("cpu=1", test.constraints)
			r := room(free(1, "pods=1 cpu=1").labels("gpu=a100", "cores=16"))
			if got := r.Fits(d); got != (test.want == yes) {
				t.Errorf("Fits says %t", got)
			}
			if got := r.Unsure(d); got != (test.want == unknown) {
				t.Errorf("Unsure says %t", got)
			}
			if got := r.CouldHold(d); got != (test.want != no) {
				t.Errorf("CouldHold says %t", got)
			}
		})
	}
}

func TestTaintsAndTolerations(t *testing.T) {
	taint := func(value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: "k", Value: value, Effect: effect}
	}
	const noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
	tests := map[string]struct {
		taint      corev1.Taint
		toleration corev1.Toleration
		want       bool
	}{
		"NoSchedule keeps away": {taint("v", noSchedule), corev1.Toleration{Key: "other"}, false},
		"NoExecute keeps away":  {taint("v", noExecute), corev1.Toleration{Key: "other"}, false},
		"PreferNoSchedule does not keep away": {
			taint("v", corev1.TaintEffectPreferNoSchedule),
			corev1.Toleration{Key: "other"},
			true,
		},
		"the same value is tolerated": {
			taint("v", noSchedule),
			corev1.Toleration{Key: "k", Value: "v"},
			true,
		},
		"Equal is the default": {
			taint("v", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Equal", Value: "v"},
			true,
		},
		"another value is not tolerated": {
			taint("v", noSchedule),
			corev1.Toleration{Key: "k", Value: "w"},
			false,
		},
		"any value is tolerated": {
			taint("v", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Exists"},
			true,
		},
		"everything is tolerated": {
			taint("v", noExecute),
			corev1.Toleration{Operator: "Exists"},
			true,
		},
		"the same effect is tolerated": {
			taint("v", noExecute),
			corev1.Toleration{Key: "k", Operator: "Exists", Effect: noExecute},
			true,
		},
		"another effect is not tolerated": {
			taint("v", noExecute),
			corev1.Toleration{Key: "k", Operator: "Exists", Effect: noSchedule},
			false,
		},
		"a greater value is tolerated": {
			taint("6", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Gt", Value: "5"},
			true,
		},
		"an equal value is not greater": {
			taint("5", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Gt", Value: "5"},
			false,
		},
		"a lesser value is tolerated": {
			taint("4", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Lt", Value: "5"},
			true,
		},
		"a value that is no number is neither greater nor less": {
			taint("v", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Lt", Value: "5"},
			false,
		},
		"an operator that does not exist": {
			taint("v", noSchedule),
			corev1.Toleration{Key: "k", Operator: "Like", Value: "v"},
			false,
		},
		"a cordoned node is tolerated by its taint": {
			corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: noSchedule},
			corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"},
			true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := room(
				free(
					1,
					"pods=1",
				).tainted(
					corev1.Taint{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
					test.taint,
				),
			)
			d := demands("", tolerates(test.toleration))
			if got := r.Fits(d); got != test.want {
				t.Errorf("Fits says %t: %s", got, r.Explain(d))
			}
			if got := r.CouldHold(d); got != test.want {
				t.Errorf("CouldHold says %t", got)
			}
			if r.Unsure(d) {
				t.Error("taints are always told")
			}
		})
	}
}

func TestEachTaintMustBeTolerated(t *testing.T) {
	a, b := corev1.Taint{
		Key:    "a",
		Effect: corev1.TaintEffectNoSchedule,
	}, corev1.Taint{
		Key:    "b",
		Effect: corev1.TaintEffectNoSchedule,
	}
	r := room(free(1, "pods=1").tainted(a, b))
	if r.Fits(demands("", tolerates(corev1.Toleration{Key: "a", Operator: "Exists"}))) {
		t.Error("the taint b was not looked at")
	}
	if !r.Fits(
		demands(
			"",
			tolerates(corev1.Toleration{Key: "a", Operator: "Exists"}, corev1.Toleration{Key: "b", Operator: "Exists"}),
		),
	) {
		t.Error("both are tolerated")
	}
}

func TestMatchesAreRememberedForTheSameLabelsAndTaints(t *testing.T) {
	before := room(free(1, "pods=1 cpu=1").labels("gpu=a100"))
	d := demands("cpu=1", selects("gpu=a100"))
	before.Fits(d)
	published := summaryOf(free(1, "pods=1 cpu=2").labels("gpu=a100"))
	if r := NewRoom(published, before); r.shape != before.shape || len(r.shape.matches) != 1 {
		t.Error("what is free is all that changed")
	}
	published.Status.CommonLabels = map[string]string{"kubernetes.io/os": "windows"}
	if r := NewRoom(published, before); r.shape == before.shape {
		t.Error("a common label changed")
	}
	published = summaryOf(free(1, "pods=1 cpu=2").labels("gpu=a100"))
	published.Status.OmittedLabels = nil
	if r := NewRoom(published, before); r.shape == before.shape {
		t.Error("an omitted label changed")
	}
	published = summaryOf(free(1, "pods=1 cpu=2").labels("gpu=a100").tainted(corev1.Taint{Key: "k", Value: "v"}))
	tainted := NewRoom(published, before)
	if tainted.shape == before.shape {
		t.Error("a taint changed")
	}
	published = summaryOf(free(1, "pods=1 cpu=2").labels("gpu=a100").tainted(corev1.Taint{Key: "k", Value: "w"}))
	if r := NewRoom(published, tainted); r.shape == tainted.shape {
		t.Error("a taint's value changed")
	}
}

func TestMatchesAreForgottenBeforeTheyAreTooMany(t *testing.T) {
	r := room(free(1, "pods=1"))
	for i := range 3 * remembered {
		r.Fits(demands("", selects("i="+strconv.Itoa(i))))
		if n := len(r.shape.matches); n != i%remembered+1 {
			t.Fatalf("after %d constraints, %d are remembered", i+1, n)
		}
	}
}

func TestDifferentConstraintsDiffer(t *testing.T) {
	seen := map[any]string{}
	for name, c := range map[string]translate.Constraints{
		"none":              {},
		"selector":          selects("a=b"),
		"another value":     selects("a=c"),
		"affinity":          needs(all(expression("a", corev1.NodeSelectorOpIn, "b"))),
		"another operator":  needs(all(expression("a", corev1.NodeSelectorOpNotIn, "b"))),
		"no term":           needs(),
		"toleration":        tolerates(corev1.Toleration{Key: "a", Value: "b"}),
		"another effect":    tolerates(corev1.Toleration{Key: "a", Value: "b", Effect: corev1.TaintEffectNoExecute}),
		"a name, not label": needs(named(corev1.NodeSelectorOpIn, "b")),
	} {
		id := newConstraints(c).id
		if other, ok := seen[id]; ok {
			t.Errorf("%s is taken for %s", name, other)
		}
		seen[id] = name
	}
	if newConstraints(selects("a=b", "c=d")).id != newConstraints(selects("c=d", "a=b")).id {
		t.Error("the same constraints are told apart")
	}
}
