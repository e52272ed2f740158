package node

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

func TestHandOver(t *testing.T) {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	changed := desiredNode(engagedFacts())
	changed.Labels["zone"] = "b"
	later := desiredNode(engagedFacts())
	later.Status.Conditions[0].LastTransitionTime = metav1.NewTime(start)
	for name, test := range map[string]struct {
		node     *corev1.Node
		conforms bool
		after    time.Duration
		handed   bool
		next     time.Duration
	}{
		"a node that did not change is not handed over": {desiredNode(engagedFacts()), true, time.Hour, false, 0},
		"another time of transition is no change":       {later, true, time.Hour, false, 0},
		"a change is handed over at once":               {changed, true, time.Second, true, handOverAgainAfter},
		"the node controller gets time to write": {
			desiredNode(engagedFacts()), false, 4 * time.Second, false, 6 * time.Second,
		},
		"a change that was not written, or overwritten, is handed over again": {
			desiredNode(engagedFacts()), false, handOverAgainAfter, true, handOverAgainAfter,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{
				handed:       make(chan *corev1.Node, 1),
				lastHanded:   desiredNode(engagedFacts()),
				lastHandedAt: start,
			}
			next := r.handOver(test.node, test.conforms, start.Add(test.after))
			if next != test.next || (len(r.handed) == 1) != test.handed {
				t.Errorf("%d nodes handed over, look again in %s", len(r.handed), next)
			}
		})
	}
}

func TestOnlyTheNewestIsHandedOver(t *testing.T) {
	r := &runner{handed: make(chan *corev1.Node, 1)}
	for _, zone := range []string{"a", "b", "c"} {
		node := desiredNode(engagedFacts())
		node.Labels["zone"] = zone
		r.handOver(node, false, time.Time{})
	}
	taken := make(chan *corev1.Node, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.NotifyNodeStatus(ctx, func(node *corev1.Node) { taken <- node })
	if node := waittest.Receive(t, "a node", taken); node.Labels["zone"] != "c" {
		t.Errorf("zone %s came first", node.Labels["zone"])
	}
}

func TestANodeControllerEndsWithItsNode(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r := &runner{stop: stop}
	if err := r.failed(ctx, errors.New("the API server is away")); err == nil || ctx.Err() != nil {
		t.Error("it ended for an error that passes")
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "admiralty-c2")
	if err := r.failed(ctx, notFound); err == nil || ctx.Err() == nil {
		t.Error("it goes on without a node")
	}
}

func TestANodeThatWasSeenAndIsGoneIsLost(t *testing.T) {
	node := desiredNode(engagedFacts())
	for name, test := range map[string]struct {
		shown []*corev1.Node // by the cache, one after the other
		want  bool
	}{
		"the cache does not show the new node yet": {shown: []*corev1.Node{nil, nil}},
		"the node is there":                        {shown: []*corev1.Node{nil, node, node}},
		"somebody deleted the node":                {shown: []*corev1.Node{nil, node, nil}, want: true},
		"it existed before, and was deleted":       {shown: []*corev1.Node{node, nil}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{}
			var got bool
			for _, existing := range test.shown {
				got = r.lost(existing)
			}
			if got != test.want {
				t.Errorf("lost: %t", got)
			}
		})
	}
}
