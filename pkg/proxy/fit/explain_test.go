package fit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestExplain(t *testing.T) {
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	notReady := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	ml := corev1.Taint{Key: "dedicated", Value: "ml", Effect: corev1.TaintEffectNoSchedule}
	anyone := translate.Constraints{}
	plain, gpu := free(
		9,
		"pods=9 cpu=9 memory=9Gi",
	), free(
		3,
		"pods=9 cpu=4 memory=9Gi nvidia.com/gpu=1",
	).labels(
		"gpu=a100",
	)
	long := make([]string, 9)
	for i := range long {
		long[i] = "a-long-key-" + string(rune('a'+i)) + "=value"
	}
	both := needs(all(expression("gpu", "In", "a100", "h100"), expression("spot", "DoesNotExist")))
	both.NodeSelector = map[string]string{"zone": "z"}
	longBoth := needs()
	longBoth.NodeSelector = pairsOf(long)
	tests := map[string]struct {
		room *Room
		pod  string
		of   translate.Constraints
		want string
	}{
		"a target whose capacity is not known": {nil, "", anyone, "its capacity is not known yet"},
		"a target without nodes":               {room(), "", anyone, "it has no nodes"},
		"a pod that fits":                      {room(plain), "cpu=1", anyone, ""},

		"too few CPUs": {
			room(free(1, "pods=1 cpu=1500m")), "cpu=4", anyone, "no node has 4 free CPUs (largest: 1.5)",
		},
		"less than one CPU": {
			room(free(1, "pods=1 cpu=20m")), "cpu=1", anyone, "no node has 1 free CPU (largest: 0.02)",
		},
		"too little memory and storage": {
			room(free(1, "pods=1 memory=1200Mi ephemeral-storage=1Gi")), "memory=8Gi ephemeral-storage=1Ti", anyone,
			"no node has 1Ti of free ephemeral storage (largest: 1Gi), nor 8Gi of free memory (largest: 1.1Gi)",
		},
		"none of an extended resource": {
			room(free(1, "pods=1")), "nvidia.com/gpu=2", anyone, "no node has 2 free nvidia.com/gpu (largest: 0)",
		},
		"too few huge pages": {
			room(
				free(1, "pods=1 hugepages-2Mi=2Mi"),
			),
			"hugepages-2Mi=1Gi",
			anyone,
			"no node has 1Gi of free hugepages-2Mi (largest: 2Mi)",
		},
		"no place for a pod": {room(free(1, "pods=0 cpu=9")), "cpu=1", anyone, "no node takes another pod"},
		"each resource on another node": {
			room(free(1, "pods=1 cpu=4 memory=2Gi").and(1, "pods=1 cpu=1 memory=16Gi")), "cpu=4 memory=8Gi", anyone,
			"no node has 4 free CPUs and 8Gi of free memory together (nearest: 4 CPUs and 2Gi of memory)",
		},
		"the node that comes nearest": {
			room(
				free(1, "pods=1 cpu=1 memory=8Gi").and(1, "pods=1 cpu=3 memory=8Gi").and(1, "pods=1 cpu=4 memory=1Gi"),
			),
			"cpu=4 memory=4Gi", anyone,
			"no node has 4 free CPUs and 4Gi of free memory together (nearest: 3 CPUs and 8Gi of memory)",
		},
		"the CPUs on a node without a place for a pod": {
			room(
				free(1, "pods=0 cpu=4").and(1, "pods=1 cpu=1"),
			),
			"cpu=4",
			anyone,
			"no node has 4 free CPUs and takes another pod",
		},

		"no node is selected": {room(plain, gpu), "cpu=1", selects("gpu=h100"), "no node matches gpu=h100"},
		"no node matches selector and affinity": {
			room(plain),
			"cpu=1",
			both,
			"no node matches zone=z and gpu in (a100,h100),!spot",
		},
		"no node matches the affinity": {
			room(plain),
			"",
			needs(all(expression("a", "In", "b"))),
			"no node matches a=b",
		},
		"no node matches a term": {
			room(
				plain,
			),
			"",
			needs(all(expression("a", "Exists")), all(expression("b", "Exists"))),
			"no node matches the pod's node affinity",
		},
		"an affinity that cannot be parsed": {
			room(plain),
			"",
			needs(all(expression("a", "Like"))),
			"no node matches the pod's node affinity",
		},
		"a long selector": {room(plain), "", selects(long...), "no node matches the pod's node selector"},
		"a long selector and affinity": {
			room(plain),
			"",
			longBoth,
			"no node matches the pod's node selector and affinity",
		},
		"a label that the target does not list": {
			room(plain), "cpu=1", selects("kubernetes.io/hostname=n1"),
			"it does not tell whether one of its nodes with room matches kubernetes.io/hostname=n1",
		},
		"a node name that the target does not list": {
			room(
				plain,
			),
			"cpu=1",
			needs(named("In", "n1")),
			"it does not tell whether one of its nodes with room matches metadata.name=n1",
		},
		"a label that the target does not list, and no room": {
			room(plain), "cpu=10", selects("kubernetes.io/hostname=n1"), "no node has 10 free CPUs (largest: 9)",
		},

		"one node has a taint, the others have no room": {
			room(plain, free(1, "pods=9 cpu=99").tainted(ml)),
			"cpu=10",
			anyone,
			"of its 10 nodes, 1 has the taint dedicated=ml:NoSchedule, which the pod does not tolerate, " +
				"and none of the others has 10 free CPUs (largest: 9)",
		},
		"some nodes may match, and have no room": {
			room(
				plain,
				gpu,
			),
			"cpu=5",
			needs(all(expression("kubernetes.io/hostname", "Exists"), expression("gpu", "Exists"))),
			"of its 12 nodes, 3 may match kubernetes.io/hostname,gpu, and none of these has 5 free CPUs (largest: 4)",
		},
		"all nodes are cordoned": {
			room(free(3, "pods=1").tainted(cordoned)), "", anyone, "its 3 nodes are cordoned",
		},
		"the only node is cordoned": {
			room(free(1, "pods=1").tainted(cordoned)), "", anyone, "its only node is cordoned",
		},
		"all nodes are not ready": {
			room(free(3, "pods=1").tainted(notReady)), "", anyone, "its 3 nodes are not ready",
		},
		"all nodes have a taint": {
			room(free(3, "pods=1").tainted(ml)),
			"",
			anyone,
			"its 3 nodes have the taint dedicated=ml:NoSchedule, which the pod does not tolerate",
		},
		"the nodes that match have a taint": {
			room(plain, gpu.tainted(ml)),
			"",
			selects("gpu=a100"),
			"its 3 nodes that match gpu=a100 have the taint dedicated=ml:NoSchedule, which the pod does not tolerate",
		},
		"the one node that matches is not ready": {
			room(plain, free(1, "pods=1").labels("a=b").tainted(notReady)),
			"",
			selects("a=b"),
			"its 1 node that matches a=b is not ready",
		},
		"nodes keep the pod away for several reasons": {
			room(free(3, "pods=1").tainted(cordoned), free(1, "pods=1").tainted(ml)),
			"",
			anyone,
			"of its 4 nodes, 3 are cordoned, 1 has the taint dedicated=ml:NoSchedule, which the pod does not tolerate",
		},

		"only some nodes match": {
			room(plain, gpu), "nvidia.com/gpu=2", selects("gpu=a100"),
			"of its 12 nodes, 3 match gpu=a100, and none of these has 2 free nvidia.com/gpu (largest: 1)",
		},
		"the largest of the nodes that match": {
			room(
				plain,
				gpu,
			),
			"cpu=5",
			selects("gpu=a100"),
			"of its 12 nodes, 3 match gpu=a100, and none of these has 5 free CPUs (largest: 4)",
		},
		"only one node matches": {
			room(
				plain,
				free(1, "pods=0").labels("a=b"),
			),
			"",
			selects("a=b"),
			"of its 10 nodes, 1 matches a=b, and none of these takes another pod",
		},
		"some nodes are cordoned": {
			room(plain, free(2, "pods=9 cpu=99").tainted(cordoned)), "cpu=10", anyone,
			"of its 11 nodes, 2 are cordoned, and none of the others has 10 free CPUs (largest: 9)",
		},
		"some nodes match, and some of these are cordoned": {
			room(
				plain,
				gpu,
				free(2, "pods=9 cpu=99").labels("gpu=a100").tainted(cordoned),
			),
			"cpu=10",
			selects("gpu=a100"),
			"of its 14 nodes, 5 match gpu=a100; of these, 2 are cordoned, " +
				"and none of the others has 10 free CPUs (largest: 4)",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.room.Explain(demands(test.pod, test.of)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
