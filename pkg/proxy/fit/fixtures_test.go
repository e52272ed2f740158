package fit

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// list reads "cpu=1 memory=2Gi".
func list(text string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		all[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return all
}

func asks(text string) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(text)}},
	}}}
}

func demands(text string, of translate.Constraints) *Demand { return NewDemand(asks(text), of) }

type nodes struct {
	v1alpha1.NodeClass
}

func (n nodes) labels(pairs ...string) nodes {
	n.Labels = pairsOf(pairs)
	return n
}

func (n nodes) tainted(taints ...corev1.Taint) nodes {
	n.Taints = taints
	return n
}

// free are n nodes with so much free, of twice as much.
func free(n int32, text string) nodes {
	allocatable := list(text)
	for name, q := range allocatable {
		q.Add(q)
		allocatable[name] = q
	}
	return nodes{v1alpha1.NodeClass{
		Nodes: n, Allocatable: allocatable, Free: []v1alpha1.FreeNodes{{Nodes: n, Resources: list(text)}},
	}}
}

func (n nodes) and(more int32, text string) nodes {
	n.Nodes += more
	n.Free = append(n.Free, v1alpha1.FreeNodes{Nodes: more, Resources: list(text)})
	return n
}

func summaryOf(all ...nodes) *v1alpha1.ClusterSummary {
	summary := &v1alpha1.ClusterSummary{}
	summary.Status.CommonLabels = map[string]string{"kubernetes.io/os": "linux"}
	summary.Status.OmittedLabels = []string{corev1.LabelHostname}
	for _, n := range all {
		summary.Status.Classes = append(summary.Status.Classes, n.NodeClass)
	}
	return summary
}

func room(all ...nodes) *Room { return NewRoom(summaryOf(all...), nil) }

func pairsOf(pairs []string) map[string]string {
	all := map[string]string{}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		all[key] = value
	}
	return all
}

func selects(pairs ...string) translate.Constraints {
	return translate.Constraints{NodeSelector: pairsOf(pairs)}
}

func expression(key string, operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
}

func all(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: expressions}
}

func named(operator corev1.NodeSelectorOperator, names ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{
		MatchFields: []corev1.NodeSelectorRequirement{expression("metadata.name", operator, names...)},
	}
}

func needs(terms ...corev1.NodeSelectorTerm) translate.Constraints {
	return translate.Constraints{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}}
}

func tolerates(tolerations ...corev1.Toleration) translate.Constraints {
	return translate.Constraints{Tolerations: tolerations}
}
