package feedback

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestThePodChaperonOfABoundProxyGetsItsMarks(t *testing.T) {
	key := types.NamespacedName{Name: "c2"}
	keys, lost := proof.Generate(time.Unix(1000, 0)), proof.Generate(time.Unix(500, 0))
	type options = []func(*v1alpha1.PodChaperon)
	labelled := func(c *v1alpha1.PodChaperon) { c.Labels[v1alpha1.LabelTargetID] = translate.TargetID(key) }
	proved := func(keys *proof.Keys, target string) func(*v1alpha1.PodChaperon) {
		return func(c *v1alpha1.PodChaperon) {
			claim := proof.ClaimOf(proxy(), types.NamespacedName{Name: target})
			c.Annotations[v1alpha1.AnnotationProof] = keys.Sign(claim)
		}
	}
	for name, test := range map[string]struct {
		chaperon options
		node     string
		keyless  bool
		want     bool
	}{
		"an earlier version made it": {want: true},
		"it has all marks":           {chaperon: options{labelled, proved(keys, "c2")}},
		"it was withdrawn too late": {
			chaperon: options{labelled, proved(keys, "c2"), withdrawn(corev1.PodRunning)}, want: true,
		},
		"it has no proof":                            {chaperon: options{labelled}, want: true},
		"it has only the proof":                      {chaperon: options{proved(keys, "c2")}, want: true},
		"its proof is for another target":            {chaperon: options{labelled, proved(keys, "c3")}, want: true},
		"its proof is of a lost key":                 {chaperon: options{labelled, proved(lost, "c2")}, want: true},
		"the proxy is not bound":                     {node: "-"},
		"the proxy is bound to another node":         {node: "admiralty-c3"},
		"it is of another pod of the name":           {chaperon: options{ofAnother}},
		"the key is not known yet, and cannot prove": {keyless: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{target: key, nodeName: node, keys: keys, proxy: proxy(), vet: anyAddress}
			switch test.node {
			case "":
			case "-":
				s.proxy.Spec.NodeName = ""
			default:
				s.proxy.Spec.NodeName = test.node
			}
			if test.keyless {
				s.keys = nil
			}
			s.chaperons = []v1alpha1.PodChaperon{chaperon(test.chaperon...)}
			if got := decide(s).prove; (got != nil) != test.want {
				t.Errorf("the PodChaperon gets its marks: %v, want %v", got != nil, test.want)
			}
		})
	}
}
