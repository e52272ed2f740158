package fit

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// published is what is free in each class, as vectors.
func published(r *Room) [][]vector {
	var all [][]vector
	for _, c := range r.classes {
		all = append(all, c.free)
	}
	return all
}

func TestWithTakesThePodFromTheEmptiestNode(t *testing.T) {
	tests := map[string]struct {
		room, want *Room
		pod        string
		of         translate.Constraints
	}{
		"the only node": {
			room(free(1, "pods=2 cpu=2")),
			room(free(1, "pods=1 cpu=1")),
			"cpu=1",
			translate.Constraints{},
		},
		"one node of many": {
			room(
				free(3, "pods=2 cpu=2"),
			),
			room(free(2, "pods=2 cpu=2").and(1, "pods=1 cpu=1")),
			"cpu=1",
			translate.Constraints{},
		},
		"a node like others": {
			room(
				free(2, "pods=2 cpu=2").and(1, "pods=1 cpu=1"),
			),
			room(free(1, "pods=2 cpu=2").and(2, "pods=1 cpu=1")),
			"cpu=1",
			translate.Constraints{},
		},
		"the emptiest vector": {
			room(
				free(1, "pods=2 cpu=2").and(1, "pods=5 cpu=5"),
			),
			room(free(1, "pods=2 cpu=2").and(1, "pods=4 cpu=4")),
			"cpu=1",
			translate.Constraints{},
		},
		"the emptiest vector that fits": {
			room(free(1, "pods=9 cpu=9 memory=1").and(1, "pods=2 cpu=2 memory=2")),
			room(free(1, "pods=9 cpu=9 memory=1").and(1, "pods=1 cpu=2 memory=0")), "memory=2", translate.Constraints{},
		},
		"the class that matches": {
			room(free(1, "pods=9 cpu=9"), free(1, "pods=2 cpu=2").labels("a=b")),
			room(free(1, "pods=9 cpu=9"), free(1, "pods=1 cpu=1").labels("a=b")), "cpu=1", selects("a=b"),
		},
		"the class that may match": {
			room(free(1, "pods=2 cpu=2")), room(free(1, "pods=1 cpu=1")), "cpu=1", selects("kubernetes.io/hostname=n1"),
		},
		"the class that matches before one that may": {
			room(free(1, "pods=9 cpu=9"), free(1, "pods=2 cpu=2").labels("a=b")),
			room(free(1, "pods=9 cpu=9"), free(1, "pods=1 cpu=1").labels("a=b")), "cpu=1",
			needs(named("In", "n1"), all(expression("a", "Exists"))),
		},
		"a node that is like others afterwards": {
			room(free(1, "pods=1 cpu=1").and(1, "pods=2 cpu=2")), room(free(2, "pods=1 cpu=1")), "cpu=1",
			translate.Constraints{},
		},
		"the vector with more CPUs and memory on average": {
			room(free(1, "pods=1 cpu=2 memory=3").and(1, "pods=1 cpu=3 memory=2")),
			room(free(1, "pods=1 cpu=2 memory=3").and(1, "pods=0 cpu=2 memory=2")), "cpu=1", translate.Constraints{},
		},
		"places for pods do not count": {
			room(free(1, "pods=9 cpu=3 memory=2").and(1, "pods=2 cpu=2 memory=3")),
			room(free(1, "pods=9 cpu=3 memory=2").and(1, "pods=1 cpu=1 memory=3")), "cpu=1", translate.Constraints{},
		},
		"a resource that nodes do not have does not count": {
			room(free(1, "pods=1 cpu=2").and(1, "pods=1 cpu=3"), free(1, "pods=1 memory=1").labels("a=b")),
			room(free(1, "pods=1 cpu=2").and(1, "pods=0 cpu=2"), free(1, "pods=1 memory=1").labels("a=b")), "cpu=1",
			translate.Constraints{},
		},
		"nodes with fewer resources count as much": {
			room(free(1, "pods=1 cpu=2 memory=2"), free(1, "pods=1 cpu=1").and(1, "pods=1 cpu=2").labels("a=b")),
			room(free(1, "pods=1 cpu=2 memory=2"), free(1, "pods=1 cpu=1").and(1, "pods=0 cpu=2").labels("a=b")), "",
			translate.Constraints{},
		},
		"the first of equal classes": {
			room(free(1, "pods=1 cpu=2"), free(1, "pods=1 cpu=2").labels("a=b")),
			room(free(1, "pods=0 cpu=1"), free(1, "pods=1 cpu=2").labels("a=b")), "cpu=1", translate.Constraints{},
		},
		"a pod that fits nowhere changes nothing": {
			room(free(1, "pods=2 cpu=2")),
			room(free(1, "pods=2 cpu=2")),
			"cpu=3",
			translate.Constraints{},
		},
		"a resource that no node has changes nothing": {
			room(free(1, "pods=2 cpu=2")),
			room(free(1, "pods=2 cpu=2")),
			"x/y=3",
			translate.Constraints{},
		},
		"a pod without requests takes only a pod's place": {
			room(free(1, "pods=2 cpu=2")),
			room(free(1, "pods=1 cpu=2")),
			"",
			translate.Constraints{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := published(test.room)
			got := test.room.With(demands(test.pod, test.of))
			if diff := cmp.Diff(published(test.want), published(got), cmp.AllowUnexported(vector{})); diff != "" {
				t.Errorf("free (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, published(test.room), cmp.AllowUnexported(vector{})); diff != "" {
				t.Errorf("the room before has changed:\n%s", diff)
			}
			if same := got == test.room; same != cmp.Equal(before, published(got), cmp.AllowUnexported(vector{})) {
				t.Errorf("it is the same room: %t", same)
			}
		})
	}
	if (*Room)(nil).With(demands("", translate.Constraints{})) != nil {
		t.Error("nothing is known")
	}
}

func TestWithTakesEachPodOnceAndNeverMoreThanThereIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := room(
		free(3, "pods=10 cpu=8 memory=9"),
		free(2, "pods=4 cpu=16 memory=2").labels("a=b").and(5, "pods=3 cpu=1 memory=1"),
	)
	names := []string{"cpu=1", "cpu=2 memory=1", "memory=3", "", "cpu=3"}
	taken := 0
	for i := 0; r.Fits(demands("", translate.Constraints{})); i++ {
		d := demands(names[random.IntN(len(names))], translate.Constraints{})
		before, nodes := sums(r)
		fits := r.Fits(d)
		r = r.With(d)
		after, nodesAfter := sums(r)
		if nodes != nodesAfter {
			t.Fatalf("pod %d: %d nodes became %d", i, nodes, nodesAfter)
		}
		if fits {
			taken++
			for _, q := range d.quantities {
				before[q.Name] -= q.Amount
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatalf("pod %d:\n%s", i, diff)
		}
	}
	if taken != 3*10+2*4+5*3 {
		t.Errorf("%d pods were taken", taken)
	}
}

// sums fails where something is negative, or a class's largest is wrong.
func sums(r *Room) (map[corev1.ResourceName]int64, int) {
	all, nodes := map[corev1.ResourceName]int64{}, 0
	for _, c := range r.classes {
		largest := make([]int64, len(r.names))
		for _, v := range c.free {
			nodes += v.nodes
			for i, amount := range v.amounts {
				if amount < 0 || amount > c.largest[i] {
					panic("an amount is out of its bounds")
				}
				largest[i] = max(largest[i], amount)
				all[r.names[i]] += amount * int64(v.nodes)
			}
		}
		if !cmp.Equal(largest, c.largest) {
			panic("the largest amounts are wrong")
		}
	}
	return all, nodes
}

func TestRoomier(t *testing.T) {
	base := summaryOf(free(2, "pods=5 cpu=2 memory=4").and(1, "pods=5 cpu=4 memory=2").labels("a=b"))
	larger := summaryOf(free(2, "pods=5 cpu=2 memory=4").and(1, "pods=5 cpu=4 memory=2").labels("a=b"))
	larger.Status.Classes[0].Allocatable = list("pods=10 cpu=9 memory=8")
	reversed := summaryOf(free(1, "pods=5 cpu=4 memory=2").and(2, "pods=5 cpu=2 memory=4").labels("a=b"))
	reversed.Status.Classes[0].Allocatable = base.Status.Classes[0].Allocatable
	tests := map[string]struct {
		before, after *Room
		want          bool
	}{
		"the room is not known any more":   {NewRoom(base, nil), nil, false},
		"the room was not known before":    {nil, NewRoom(base, nil), true},
		"the room is not known, as before": {nil, nil, false},
		"the same room":                    {NewRoom(base, nil), NewRoom(base, nil), false},
		"more of the same nodes":           {room(free(1, "pods=1")), room(free(2, "pods=1")), false},
		"fewer nodes":                      {room(free(2, "pods=1")), room(free(1, "pods=1")), false},
		"less of a resource":               {room(free(1, "pods=1 cpu=2")), room(free(1, "pods=1 cpu=1")), false},
		"more of a resource":               {room(free(1, "pods=1 cpu=2")), room(free(1, "pods=1 cpu=3")), true},
		"more of one resource, less of another": {
			room(free(1, "pods=1 cpu=2 memory=4")),
			room(free(1, "pods=1 cpu=3 memory=1")),
			true,
		},
		"each resource was free before, but not together": {
			NewRoom(base, nil), room(free(1, "pods=5 cpu=4 memory=4").labels("a=b")), true,
		},
		"two resources that no node had together": {
			room(free(1, "pods=1 cpu=4 memory=1").and(1, "pods=1 cpu=1 memory=4")),
			room(free(1, "pods=1 cpu=4 memory=1").and(1, "pods=1 cpu=3 memory=3")), true,
		},
		"one more vector with less": {
			room(free(1, "pods=1 cpu=4 memory=4")),
			room(free(1, "pods=1 cpu=4 memory=4").and(1, "pods=1 cpu=3 memory=3")), false,
		},
		"the same vectors in another order": {
			NewRoom(base, nil), NewRoom(reversed, nil), false,
		},
		"another class": {
			room(free(1, "pods=1")),
			room(free(1, "pods=1"), free(1, "pods=1").labels("a=b")),
			true,
		},
		"another label": {room(free(1, "pods=1")), room(free(1, "pods=1").labels("a=b")), true},
		"another taint": {
			room(free(1, "pods=1")),
			room(free(1, "pods=1").tainted(corev1.Taint{Key: "k"})),
			true,
		},
		"a resource that is new":         {room(free(1, "pods=1 cpu=9")), room(free(1, "pods=1 a/b=1")), true},
		"a resource that is gone":        {room(free(1, "pods=1 a/b=1")), room(free(1, "pods=1")), false},
		"zero of a resource that is new": {room(free(1, "pods=1 cpu=9")), room(free(1, "pods=1 a/b=0")), false},
		"larger nodes, as full":          {NewRoom(base, nil), NewRoom(larger, nil), true},
		"the first nodes":                {room(), room(free(1, "pods=1")), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.after.Roomier(test.before); got != test.want {
				t.Errorf("Roomier says %t", got)
			}
		})
	}
	r := NewRoom(base, nil)
	placed := r.With(demands("cpu=1", translate.Constraints{}))
	if placed.Roomier(r) || !r.Roomier(placed) {
		t.Error("what a pod takes is room when it is gone")
	}
}
