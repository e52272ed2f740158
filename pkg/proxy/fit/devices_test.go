package fit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const gpu, gpuClass = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"

// provides are the resources of the DeviceClasses of a target with these nodes.
func provides(resources []string, all ...nodes) *Room {
	summary := summaryOf(all...)
	summary.Status.DeviceResources = resources
	return NewRoom(summary, nil)
}

func TestTheTargetDecidesAboutDevices(t *testing.T) {
	listed := free(1, "pods=1 cpu=4 example.com/gpu=2")
	full := free(1, "pods=1 cpu=4")
	full.Allocatable = list("pods=110 cpu=8 example.com/gpu=8")
	others := free(1, "pods=1").labels("a=b")
	tests := map[string]struct {
		room *Room
		pod  string
		want string
	}{
		"a DeviceClass provides it": {provides([]string{gpu}, free(1, "pods=1 cpu=4")), "cpu=4 example.com/gpu=1", ""},
		"a DeviceClass provides it by its own name": {
			provides([]string{gpuClass}, free(1, "pods=1 cpu=4")), "cpu=4 deviceclass.resource.kubernetes.io/gpu=1", "",
		},
		"a DeviceClass provides another one": {
			provides([]string{gpu}, free(1, "pods=1 cpu=4")), "cpu=4 example.com/fpga=1",
			"no node has 1 free example.com/fpga (largest: 0)",
		},
		"no DeviceClass provides it": {
			provides(nil, free(1, "pods=1 cpu=4")), "deviceclass.resource.kubernetes.io/gpu=1",
			"no node has 1 free deviceclass.resource.kubernetes.io/gpu (largest: 0)",
		},
		"the rest of the pod does not fit": {
			provides([]string{gpu}, free(1, "pods=1 cpu=4")), "cpu=5 example.com/gpu=1",
			"no node has 5 free CPUs (largest: 4)",
		},
		"the rest of the pod does not fit together": {
			provides([]string{gpu}, free(1, "pods=1 cpu=4 memory=1").and(1, "pods=1 cpu=1 memory=4")),
			"cpu=4 memory=4 example.com/gpu=1",
			"no node has 4 free CPUs, 1 free example.com/gpu and 4 of free memory together " +
				"(nearest: 4 CPUs and 1 of memory)",
		},
		"nodes list it, too": {provides([]string{gpu}, listed), "example.com/gpu=2", ""},
		"nodes list it, and have less": {
			provides([]string{gpu}, listed), "example.com/gpu=3", "no node has 3 free example.com/gpu (largest: 2)",
		},
		"nodes list it, and have none": {
			provides([]string{gpu}, full), "example.com/gpu=1", "no node has 1 free example.com/gpu (largest: 0)",
		},
		"other nodes list it": {provides([]string{gpu}, full, others), "example.com/gpu=9", ""},
		"other nodes list it, and have the CPUs": {
			provides([]string{gpu}, full, others), "cpu=1 example.com/gpu=1",
			"no node has 1 free CPU and 1 free example.com/gpu together (nearest: 4 CPUs and 0 example.com/gpu)",
		},
		"it has no nodes": {provides([]string{gpu}), "example.com/gpu=1", "it has no nodes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := demands(test.pod, translate.Constraints{})
			if got := test.room.Fits(d); got != (test.want == "") {
				t.Errorf("Fits says %t", got)
			}
			if got := test.room.Explain(d); got != test.want {
				t.Errorf("Explain says %q", got)
			}
		})
	}
}

func TestAnEmptyNodeCouldHoldAPodWithADevice(t *testing.T) {
	full := free(1, "pods=1 cpu=0")
	full.Allocatable = list("pods=110 cpu=4")
	r := provides([]string{gpu}, full)
	if d := demands("cpu=4 example.com/gpu=1", translate.Constraints{}); r.Fits(d) || !r.CouldHold(d) {
		t.Error("only its CPUs are in use")
	}
	if r.CouldHold(demands("cpu=5 example.com/gpu=1", translate.Constraints{})) {
		t.Error("it never has as many CPUs")
	}
}

func TestAPodWithADeviceTakesTheRestOfItsRequests(t *testing.T) {
	r := provides([]string{gpu}, free(2, "pods=2 cpu=2"))
	d := demands("cpu=2 example.com/gpu=1", translate.Constraints{})
	one := r.With(d)
	if !one.Fits(d) || one.With(d).Fits(d) {
		t.Error("two such pods fit")
	}
	want := provides([]string{gpu}, free(1, "pods=2 cpu=2").and(1, "pods=1 cpu=0"))
	if diff := cmp.Diff(published(want), published(one), cmp.AllowUnexported(vector{})); diff != "" {
		t.Errorf("free (-want +got):\n%s", diff)
	}
	if !one.With(d).Fits(demands("example.com/gpu=1000", translate.Constraints{})) {
		t.Error("devices do not become fewer")
	}
}

func TestANewDeviceClassIsMoreRoom(t *testing.T) {
	before, after := provides(nil, free(1, "pods=1")), provides([]string{gpu}, free(1, "pods=1"))
	if !after.Roomier(before) || before.Roomier(after) || after.Roomier(provides([]string{gpu}, free(1, "pods=1"))) {
		t.Error("pods that ask for it may fit now")
	}
	listing := free(1, "pods=1")
	listing.Allocatable = list("pods=1 example.com/gpu=1")
	if provides([]string{gpu}, listing).Roomier(provides(nil, listing)) {
		t.Error("nodes that list it have no more of it")
	}
}

func TestADeviceIsSureOnlyWhereThePodMatches(t *testing.T) {
	d := demands("example.com/gpu=1", selects("kubernetes.io/hostname=n1"))
	r := provides([]string{gpu}, free(1, "pods=1"))
	if r.Fits(d) || !r.Unsure(d) {
		t.Error("the node may be n1")
	}
	tainted := free(1, "pods=1").tainted(corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule})
	if provides([]string{gpu}, tainted).Fits(demands("example.com/gpu=1", translate.Constraints{})) {
		t.Error("the node keeps the pod away")
	}
}
