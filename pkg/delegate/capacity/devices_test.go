package capacity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func deviceClass(name, resource string) *resourcev1.DeviceClass {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resource != "" {
		class.Spec.ExtendedResourceName = &resource
	}
	return class
}

func TestASummaryListsTheResourcesOfDeviceClasses(t *testing.T) {
	a := newAccount(nil)
	expect := func(what string, changed, want bool, resources ...string) {
		t.Helper()
		if changed != want {
			t.Errorf("%s: changed %t", what, changed)
		}
		if diff := cmp.Diff(resources, a.summary().Status.DeviceResources); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	const implicit = "deviceclass.resource.kubernetes.io/"
	expect("no DeviceClass", false, false)
	expect("one without a resource", a.setDeviceClass(deviceClass("b.example", "")), true, implicit+"b.example")
	expect("the same", a.setDeviceClass(deviceClass("b.example", "")), false, implicit+"b.example")
	expect("it gets a resource", a.setDeviceClass(deviceClass("b.example", "x.io/gpu")), true,
		implicit+"b.example", "x.io/gpu")
	expect("another one with the same", a.setDeviceClass(deviceClass("a", "x.io/gpu")), true,
		implicit+"a", implicit+"b.example", "x.io/gpu")
	expect("the first is gone", a.removeDeviceClass("b.example"), true, implicit+"a", "x.io/gpu")
	expect("it is gone again", a.removeDeviceClass("b.example"), false, implicit+"a", "x.io/gpu")
	expect("a name that no pod can request", a.setDeviceClass(deviceClass(strings.Repeat("c", 64), "")), true,
		implicit+"a", "x.io/gpu")
}

func TestASummaryListsABoundedNumberOfResourcesOfDeviceClasses(t *testing.T) {
	a := newAccount(nil)
	for i := range 100 {
		a.setDeviceClass(deviceClass(fmt.Sprintf("class-%02d", i), fmt.Sprintf("x.io/gpu-%02d", i)))
	}
	got := a.summary().Status.DeviceResources
	if len(got) != maxDeviceResources || got[27] != "deviceclass.resource.kubernetes.io/class-27" ||
		got[28] != "x.io/gpu-00" || got[127] != "x.io/gpu-99" {
		t.Errorf("got %d: %v", len(got), got)
	}
}
