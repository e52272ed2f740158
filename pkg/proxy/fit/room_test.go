package fit

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestHowNearATargetComesToAPod(t *testing.T) {
	nothing := translate.Constraints{}
	for name, test := range map[string]struct {
		room *Room
		want float64
	}{
		"none is known":               {nil, 0},
		"no node":                     {room(), 0},
		"half of one resource":        {room(free(2, "pods=5 cpu=2 memory=8Gi")), 0.5},
		"the scarcest resource":       {room(free(1, "pods=5 cpu=4 memory=2Gi")), 0.25},
		"all":                         {room(free(1, "pods=5 cpu=9 memory=9Gi")), 1},
		"no room for a pod":           {room(free(1, "pods=0 cpu=9 memory=9Gi")), 0},
		"a resource that no node has": {room(free(1, "pods=5 cpu=9")), 0},
		"the nearest node": {
			room(free(1, "pods=5 cpu=1 memory=8Gi").and(1, "pods=5 cpu=3 memory=8Gi")), 0.75,
		},
	} {
		if got := test.room.Part(demands("cpu=4 memory=8Gi", nothing)); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestRequestsAreComparedAsKubeSchedulerDoes(t *testing.T) {
	sum := asks("cpu=1")
	sum.Spec.Containers = append(sum.Spec.Containers, sum.Spec.Containers[0])
	initialized := asks("cpu=1")
	initialized.Spec.InitContainers = asks("cpu=3").Spec.Containers
	sidecar := asks("cpu=1")
	sidecar.Spec.InitContainers = asks("cpu=2").Spec.Containers
	sidecar.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	overhead := asks("cpu=1")
	overhead.Spec.Overhead = list("cpu=1m")
	podLevel := asks("cpu=1")
	podLevel.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu=3")}
	tests := map[string]struct {
		pod  *corev1.Pod
		free string
		want bool
	}{
		"exactly as much":                     {asks("cpu=1 memory=1Gi"), "pods=1 cpu=1 memory=1Gi", true},
		"a thousandth too little":             {asks("cpu=1"), "pods=1 cpu=999m", false},
		"a byte too little":                   {asks("memory=1025"), "pods=1 memory=1Ki", false},
		"a request finer than a thousandth":   {asks("cpu=1000100u"), "pods=1 cpu=1", false},
		"nothing is requested":                {asks(""), "pods=1", true},
		"zero of a resource that no node has": {asks("nvidia.com/gpu=0"), "pods=1", true},
		"a resource that no node has":         {asks("nvidia.com/gpu=1"), "pods=1", false},
		"extended resources":                  {asks("nvidia.com/gpu=2"), "pods=1 nvidia.com/gpu=2", true},
		"too few extended resources":          {asks("nvidia.com/gpu=3"), "pods=1 nvidia.com/gpu=2", false},
		"huge pages":                          {asks("hugepages-2Mi=4Mi"), "pods=1 hugepages-2Mi=4Mi", true},
		"too few huge pages":                  {asks("hugepages-2Mi=6Mi"), "pods=1 hugepages-2Mi=4Mi", false},
		"ephemeral storage": {
			asks("ephemeral-storage=1Gi"),
			"pods=1 ephemeral-storage=1Gi",
			true,
		},
		"too little ephemeral storage": {
			asks("ephemeral-storage=2Gi"),
			"pods=1 ephemeral-storage=1Gi",
			false,
		},
		"an unknown name is not compared":          {asks("unheard=1"), "pods=1", true},
		"no room for a pod":                        {asks(""), "pods=0 cpu=1", false},
		"a node that does not list pods":           {asks(""), "cpu=1", false},
		"the node has shrunk":                      {asks("cpu=1m"), "pods=1 cpu=-1", false},
		"containers add up":                        {sum, "pods=1 cpu=1999m", false},
		"containers add up exactly":                {sum, "pods=1 cpu=2", true},
		"init containers run one after the other":  {initialized, "pods=1 cpu=3", true},
		"the largest init container must fit":      {initialized, "pods=1 cpu=2", false},
		"a sidecar runs beside the containers":     {sidecar, "pods=1 cpu=2", false},
		"a sidecar and the container":              {sidecar, "pods=1 cpu=3", true},
		"overhead counts":                          {overhead, "pods=1 cpu=1", false},
		"the pod's own resources are its requests": {podLevel, "pods=1 cpu=2", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, d := room(free(1, test.free)), NewDemand(test.pod, translate.Constraints{})
			if got := r.Fits(d); got != test.want {
				t.Errorf("Fits says %t: %s", got, r.Explain(d))
			}
			if got := r.Explain(d) == ""; got != test.want {
				t.Errorf("Explain says %q", r.Explain(d))
			}
		})
	}
}

func TestFits(t *testing.T) {
	tests := map[string]struct {
		room *Room
		pod  string
		of   translate.Constraints
		want bool
	}{
		"a target whose room is not known": {nil, "", translate.Constraints{}, false},
		"a target without classes":         {room(), "", translate.Constraints{}, false},
		"the second class has room": {
			room(
				free(1, "pods=1 cpu=1"),
				free(1, "pods=1 cpu=2").labels("a=b"),
			),
			"cpu=2",
			translate.Constraints{},
			true,
		},
		"the second vector has room": {
			room(free(1, "pods=1 cpu=1").and(1, "pods=1 cpu=2")),
			"cpu=2",
			translate.Constraints{},
			true,
		},
		"enough of each resource, but not together": {
			room(
				free(1, "pods=1 cpu=1 memory=4Gi").and(1, "pods=1 cpu=4 memory=1Gi"),
			),
			"cpu=4 memory=4Gi",
			translate.Constraints{},
			false,
		},
		"enough room, but on nodes that do not match": {
			room(
				free(1, "pods=1 cpu=1").labels("a=b"),
				free(1, "pods=1 cpu=4").labels("a=c"),
			),
			"cpu=4",
			selects("a=b"),
			false,
		},
		"a vector of no nodes": {room(free(0, "pods=1 cpu=4")), "cpu=4", translate.Constraints{}, false},
		"a resource that only other classes have": {
			room(free(1, "pods=1").labels("a=b"), free(1, "pods=1 x.io/y=1")), "x.io/y=1", selects("a=b"), false,
		},
		"more resources than fit in the buffer": {
			room(free(1, "pods=1 a/a=1 b/b=1 c/c=1 d/d=1 e/e=1 f/f=1 g/g=1 h/h=1 i/i=1")),
			"a/a=1 b/b=1 c/c=1 d/d=1 e/e=1 f/f=1 g/g=1 h/h=1 i/i=2", translate.Constraints{}, false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := demands(test.pod, test.of)
			if got := test.room.Fits(d); got != test.want {
				t.Errorf("Fits says %t", got)
			}
			if got := test.room.Explain(d) == ""; got != test.want {
				t.Errorf("Explain says %q", test.room.Explain(d))
			}
		})
	}
}

func TestUnsureNeedsRoomWhereItMayMatch(t *testing.T) {
	d := demands("cpu=2", selects("kubernetes.io/hostname=n1"))
	if !room(free(1, "pods=1 cpu=2")).Unsure(d) {
		t.Error("the node may be n1")
	}
	if room(free(1, "pods=1 cpu=1")).Unsure(d) {
		t.Error("the node has no room, whatever its name")
	}
	if room().Unsure(d) || (*Room)(nil).Unsure(d) {
		t.Error("there is no node")
	}
	either := demands("cpu=2", needs(named("In", "n1"), all(expression("a", "Exists"))))
	if r := room(free(1, "pods=1 cpu=2"), free(1, "pods=1 cpu=2").labels("a=b")); r.Unsure(either) || !r.Fits(either) {
		t.Error("it fits for sure on another node")
	}
	if r := room(free(1, "pods=1 cpu=2"), free(1, "pods=1 cpu=1").labels("a=b")); !r.Unsure(either) {
		t.Error("the node that matches has no room, but another one may match")
	}
}

func TestCouldHold(t *testing.T) {
	full := free(1, "pods=0 cpu=0")
	full.Allocatable = list("pods=110 cpu=4")
	r := room(
		full.labels("a=b"),
		free(1, "pods=1 cpu=8").tainted(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule}),
	)
	for name, test := range map[string]struct {
		pod  string
		of   translate.Constraints
		want bool
	}{
		"a pod that fits on an empty node":                       {"cpu=4", selects("a=b"), true},
		"a pod that fits on an empty node whose name is unknown": {"cpu=4", selects("kubernetes.io/hostname=n"), true},
		"a pod larger than any node":                             {"cpu=5", translate.Constraints{}, false},
		"no node matches":                                        {"cpu=4", selects("a=c"), false},
		"no node has the resource":                               {"x/y=1", translate.Constraints{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.CouldHold(demands(test.pod, test.of)); got != test.want {
				t.Errorf("CouldHold says %t", got)
			}
		})
	}
	if (*Room)(nil).CouldHold(demands("", translate.Constraints{})) {
		t.Error("nothing is known")
	}
}

func TestCouldHoldComparesOneNodeAndWhatBelongsToIt(t *testing.T) {
	class := free(2, "pods=1")
	class.Allocatable = list("pods=110 cpu=16 memory=64")
	class.Empty = []corev1.ResourceList{list("pods=100 cpu=15 memory=16"), list("pods=100 cpu=4 memory=60")}
	for name, test := range map[string]struct {
		pod          string
		could, might bool
	}{
		"a pod that fits on a node":                            {"cpu=15 memory=16", true, true},
		"a pod that fits on another node":                      {"cpu=4 memory=60", true, true},
		"a pod that needs both":                                {"cpu=5 memory=17", false, true},
		"a pod that needs what DaemonSets have":                {"cpu=16", false, true},
		"a pod that is larger than a node":                     {"cpu=17", false, false},
		"a pod that requests a resource that they do not have": {"x/y=1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := demands(test.pod, translate.Constraints{})
			for of, r := range map[string]*Room{
				"a summary":                        room(class),
				"a room in which a pod was placed": room(class).With(demands("", translate.Constraints{})),
			} {
				if r.CouldHold(d) != test.could || r.MayHold(d) != test.might {
					t.Errorf("%s: CouldHold says %t, MayHold %t", of, r.CouldHold(d), r.MayHold(d))
				}
			}
		})
	}
	less, more := class, class
	less.Empty = class.Empty[:1]
	more.Empty = slices.Concat(class.Empty[:2], []corev1.ResourceList{list("cpu=5 memory=5")})
	if !room(class).Roomier(room(less)) || room(less).Roomier(room(class)) || room(more).Roomier(room(class)) {
		t.Error("pods of DaemonSets that go leave room for others")
	}
}

func TestGrowthRoom(t *testing.T) {
	classes := []v1alpha1.ScaleUpNodeClass{
		{Labels: map[string]string{"gpu": "a100"}, Allocatable: list("cpu=8 nvidia.com/gpu=8"), Taints: []corev1.Taint{{
			Key: "gpu", Effect: corev1.TaintEffectNoSchedule,
		}}},
		{Allocatable: list("cpu=4 pods=0")},
	}
	gpu := selects("gpu=a100")
	gpu.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: "Exists"}}
	named := gpu
	named.NodeSelector = pairsOf([]string{"gpu=a100", "kubernetes.io/hostname=n"})
	r := GrowthRoom(classes)
	if d := demands("nvidia.com/gpu=8", gpu); !r.Fits(d) || !r.CouldHold(d) {
		t.Error("a new node of the class has 8")
	}
	if d := demands("nvidia.com/gpu=9", gpu); r.Fits(d) || r.CouldHold(d) {
		t.Error("a new node of the class has 8 only")
	}
	if d := demands("cpu=1", translate.Constraints{}); r.Fits(d) {
		t.Error("one class has a taint, the other one takes no pods")
	}
	if d := demands("cpu=1", named); !r.Unsure(d) {
		t.Error("a new node may have any name")
	}
	if _, changed := classes[0].Allocatable[corev1.ResourcePods]; changed {
		t.Error("the classes were changed")
	}
	if GrowthRoom(nil).Fits(demands("", translate.Constraints{})) {
		t.Error("no node can be added")
	}
}

func TestQuantitiesAreInKubeSchedulersUnits(t *testing.T) {
	d := demands("cpu=1500m memory=1Gi x.io/y=2 x.io/z=0", translate.Constraints{})
	want := []Quantity{{corev1.ResourceCPU, 1500}, {corev1.ResourceMemory, 1 << 30}, {"x.io/y", 2}}
	if diff := cmp.Diff(want, d.Quantities()); diff != "" {
		t.Error(diff)
	}
}

func TestRoomsAreSafeForConcurrentUse(t *testing.T) {
	r := room(free(100, "pods=100 cpu=100").labels("a=b"))
	for i := range 8 {
		t.Run("reader", func(t *testing.T) {
			t.Parallel()
			d := demands("cpu=1", selects("a=b", "i="+string(rune('a'+i%4))))
			for range 100 {
				if r.Fits(d) || r.With(d) != r || r.Explain(d) == "" {
					t.Error("no node matches")
				}
			}
		})
	}
}

func TestFitsAllocatesNothing(t *testing.T) {
	r, d := room(free(1, "pods=1 cpu=1").labels("a=b")), demands("cpu=1 memory=1Gi", selects("a=b"))
	if n := testing.AllocsPerRun(100, func() { r.Fits(d) }); n > 0 {
		t.Errorf("Fits allocates %g times", n)
	}
}
