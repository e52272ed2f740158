package capacity

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxDeviceResources bounds the extended resources of DeviceClasses that a summary lists.
const maxDeviceResources = 128

// devices are the names of the cluster's DeviceClasses, and their extended resources, which may be empty. No pod counts
// here: only kube-scheduler knows which devices are free.
type devices map[string]string

// setDeviceClass adds or replaces a DeviceClass.
func (a *account) setDeviceClass(class *resourcev1.DeviceClass) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	resource := ""
	if name := class.Spec.ExtendedResourceName; name != nil {
		resource = *name
	}
	before, known := a.devices[class.Name]
	a.devices[class.Name] = resource
	return !known || before != resource
}

// removeDeviceClass forgets a DeviceClass.
func (a *account) removeDeviceClass(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.devices[name]
	delete(a.devices, name)
	return known
}

// resources returns the extended resources that pods can request, in order. Names of DeviceClasses may be too long for
// that.
func (d devices) resources() []string {
	var explicit, implicit []string
	for class, resource := range d {
		if resource != "" {
			explicit = append(explicit, resource)
		}
		if name := resourcev1.ResourceDeviceClassPrefix + class; len(validation.IsQualifiedName(name)) == 0 {
			implicit = append(implicit, name)
		}
	}
	slices.Sort(explicit)
	slices.Sort(implicit)
	all := slices.Concat(slices.Compact(explicit), implicit)
	all = all[:min(len(all), maxDeviceResources)]
	return slices.Sorted(slices.Values(all))
}
