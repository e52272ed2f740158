package gate

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func amountsOf(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

// validSummary is at all bounds that a target's manager has.
func validSummary() *v1alpha1.ClusterSummary {
	cpus := amountsOf(corev1.ResourceCPU, "1500m")
	s := &v1alpha1.ClusterSummary{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName, Labels: map[string]string{"zone": ""}},
		Capacity:   amountsOf(corev1.ResourceMemory, "100Pi"), Allocatable: cpus,
	}
	s.Status = v1alpha1.ClusterSummaryStatus{
		Nodes: 50, ClusterID: "id", KubernetesVersion: "v1.37.1+k3s1", Requested: cpus,
		CommonLabels: map[string]string{"example.com/team": "a"}, OmittedLabels: []string{corev1.LabelHostname},
		Sources: []v1alpha1.SourceUsage{{
			ClusterID: "id", Requested: cpus, Latest: slices.Repeat([]string{"01234567"}, maxLatest),
		}},
	}
	for i := range maxClasses {
		free := make([]v1alpha1.FreeNodes, 5)
		if i == 0 {
			free = make([]v1alpha1.FreeNodes, 11) // 256 in all
		}
		s.Status.Classes = append(s.Status.Classes, v1alpha1.NodeClass{
			Nodes: 1, Allocatable: cpus, Empty: slices.Repeat([]corev1.ResourceList{cpus}, maxSizes), Free: free,
			Labels: map[string]string{"i": fmt.Sprint(i)},
			Taints: []corev1.Taint{{Key: "example.com/gpu", Value: "a100", Effect: corev1.TaintEffectNoExecute}},
		})
	}
	return s
}

// labelsOf returns labels of so many bytes, as packages gate and capacity count them.
func labelsOf(size int) map[string]string {
	labels := map[string]string{}
	for i := 0; size > 0; i++ {
		key := fmt.Sprintf("key-%05d", i)
		value := strings.Repeat("v", max(0, min(63, size-len(key)-2)))
		labels[key] = value
		size -= len(key) + len(value) + 2
	}
	return labels
}

func TestCheckSummary(t *testing.T) {
	class := func(change func(*v1alpha1.NodeClass)) func(*v1alpha1.ClusterSummary) {
		return func(s *v1alpha1.ClusterSummary) { change(&s.Status.Classes[7]) }
	}
	source := func(change func(*v1alpha1.SourceUsage)) func(*v1alpha1.ClusterSummary) {
		return func(s *v1alpha1.ClusterSummary) { change(&s.Status.Sources[0]) }
	}
	status := func(change func(*v1alpha1.ClusterSummaryStatus)) func(*v1alpha1.ClusterSummary) {
		return func(s *v1alpha1.ClusterSummary) { change(&s.Status) }
	}
	free := func(amounts corev1.ResourceList) func(*v1alpha1.ClusterSummary) {
		return class(func(c *v1alpha1.NodeClass) { c.Free[4].Resources = amounts })
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.ClusterSummary)
		want   string
	}{
		"one at the bounds": {func(*v1alpha1.ClusterSummary) {}, ""},
		"an empty one": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { *s = v1alpha1.ClusterSummaryStatus{} }), "",
		},
		"another name": {func(s *v1alpha1.ClusterSummary) { s.Name = "other" }, "its name is not singleton"},
		"too many classes": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.Classes = append(s.Classes, v1alpha1.NodeClass{}) }),
			"it has 51 node classes, and at most 50 are read",
		},
		"too many vectors": {
			class(func(c *v1alpha1.NodeClass) { c.Free = append(c.Free, v1alpha1.FreeNodes{}) }),
			"it has more than 256 vectors of free resources",
		},
		"too many sizes of empty nodes": {
			class(func(c *v1alpha1.NodeClass) { c.Empty = make([]corev1.ResourceList, 5) }),
			"a class has 5 sizes of empty nodes, and at most 4 are read",
		},
		"a negative size of empty nodes": {
			class(func(c *v1alpha1.NodeClass) {
				c.Empty = []corev1.ResourceList{amountsOf(corev1.ResourceMemory, "-1")}
			}),
			"its empty nodes have a negative amount of memory",
		},
		"too many sources": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.Sources = make([]v1alpha1.SourceUsage, 1001) }),
			"it has 1001 sources, and at most 1000 are read",
		},
		"features as nodes declare them": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeclaredFeatures = []string{"A", "B/c"} }), "",
		},
		"an invalid feature": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeclaredFeatures = []string{"no feature"} }),
			`the declared feature "no feature" is invalid, or not in order`,
		},
		"features without order": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeclaredFeatures = []string{"B", "A"} }),
			`the declared feature "A" is invalid, or not in order`,
		},
		"too many features": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeclaredFeatures = make([]string, 513) }),
			"it declares 513 features, and at most 512 are read",
		},
		"resources of devices": {
			status(func(s *v1alpha1.ClusterSummaryStatus) {
				s.DeviceResources = []string{"deviceclass.resource.kubernetes.io/gpu", "example.com/gpu"}
			}), "",
		},
		"too many resources of devices": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = make([]string, 129) }),
			"it has 129 resources of devices, and at most 128 are read",
		},
		"devices that are CPUs": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"cpu"} }),
			`the resource of devices "cpu" is no extended resource, or not in order`,
		},
		"devices that are huge pages": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"hugepages-2Mi"} }),
			`the resource of devices "hugepages-2Mi" is no extended resource, or not in order`,
		},
		"devices that are a resource of Kubernetes": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"kubernetes.io/batch"} }),
			`the resource of devices "kubernetes.io/batch" is no extended resource`,
		},
		"devices that are a quota": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"requests.example.com/gpu"} }),
			`the resource of devices "requests.example.com/gpu" is no extended resource`,
		},
		"devices with an invalid name": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"a/b c"} }),
			`the resource of devices "a/b c" is no extended resource`,
		},
		"devices without order": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"b/b", "a/a"} }),
			`the resource of devices "a/a" is no extended resource, or not in order`,
		},
		"devices twice": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.DeviceResources = []string{"a/a", "a/a"} }),
			`the resource of devices "a/a" is no extended resource, or not in order`,
		},
		"too many labels of classes": {
			class(func(c *v1alpha1.NodeClass) { c.Labels = labelsOf(maxText) }),
			"its labels and taints of node classes have",
		},
		"too many labels": {
			func(s *v1alpha1.ClusterSummary) { s.Labels = labelsOf(maxText + 12) },
			"its labels have 131084 bytes, and at most 131072 are read",
		},
		"too many omitted labels": {
			status(func(s *v1alpha1.ClusterSummaryStatus) {
				s.OmittedLabels = slices.Repeat([]string{strings.Repeat("k", 60)}, 600)
			}),
			"the keys of its omitted labels have more than 33792 bytes",
		},
		"an amount that is costly to compare": {
			free(amountsOf(corev1.ResourceCPU, "1e1999999998")), "its free resources have too large an amount of cpu",
		},
		"too many delegates of a source": {
			source(func(s *v1alpha1.SourceUsage) { s.Latest = append(s.Latest, "") }),
			"its list of a source's delegates is too long",
		},
		"a long UID of a delegate": {
			source(func(s *v1alpha1.SourceUsage) { s.Latest[9] = strings.Repeat("0", 37) }),
			"its list of a source's delegates is too long",
		},
		"an invalid ID of a source": {
			source(func(s *v1alpha1.SourceUsage) { s.ClusterID = "\x00" }),
			`"\x00" is no valid value of a source's cluster ID`,
		},
		"an invalid cluster ID": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.ClusterID = strings.Repeat("x", 1000) }),
			`"` + strings.Repeat("x", 64) + `…" is no valid value of a cluster ID`,
		},
		"an invalid version": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.KubernetesVersion = "v1\x1b[2J" }),
			"its Kubernetes version is invalid",
		},
		"an invalid key of a label": {
			class(func(c *v1alpha1.NodeClass) { c.Labels["a b"] = "" }), `"a b" is no valid key of a label`,
		},
		"an invalid value of a label": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.CommonLabels["a"] = "b c" }),
			`"b c" is no valid value of a label a`,
		},
		"an invalid omitted label": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.OmittedLabels[0] = "/" }),
			`"/" is no valid key of a label`,
		},
		"an invalid taint": {
			class(func(c *v1alpha1.NodeClass) { c.Taints[0].Key = "" }), `"" is no valid key of a taint`,
		},
		"an unknown effect of a taint": {
			class(func(c *v1alpha1.NodeClass) { c.Taints[0].Effect = "Explode" }),
			`a taint has the unknown effect "Explode"`,
		},
		"a negative number of nodes": {
			status(func(s *v1alpha1.ClusterSummaryStatus) { s.Nodes = -1 }), "its number of nodes is negative",
		},
		"a class with a negative number of nodes": {
			class(func(c *v1alpha1.NodeClass) { c.Nodes = math.MinInt32 }),
			"the number of nodes of a class is negative",
		},
		"a vector with a negative number of nodes": {
			class(func(c *v1alpha1.NodeClass) { c.Free[0].Nodes = -1 }), "the number of nodes of a class is negative",
		},
		"a negative amount": {
			free(amountsOf(corev1.ResourceMemory, "-1")), "its free resources have a negative amount of memory",
		},
		"a negative request": {
			source(func(s *v1alpha1.SourceUsage) { s.Requested = amountsOf(corev1.ResourceCPU, "-1m") }),
			"its requests of a source have a negative amount of cpu",
		},
		"CPUs whose thousandths are no int64": {
			free(amountsOf(corev1.ResourceCPU, "9e15")), "its free resources have too large an amount of cpu",
		},
		"an amount that is no int64": {
			func(s *v1alpha1.ClusterSummary) { s.Capacity = amountsOf(corev1.ResourceMemory, "1e30") },
			"its capacity have too large an amount of memory",
		},
		"an invalid resource": {
			func(s *v1alpha1.ClusterSummary) { s.Allocatable = amountsOf("a b", "1") },
			`its allocatable have the invalid resource "a b"`,
		},
		"too many resources": {
			free(manyAmounts()), "its free resources have 257 resources, and at most 256 are read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			summary := validSummary()
			test.change(summary)
			err := CheckSummary(summary)
			if err == nil && test.want == "" {
				return
			}
			if err == nil || test.want == "" || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got the error %v, want %q", err, test.want)
			}
		})
	}
}

// TestABoundItselfIsAccepted has as much as is read of each, and one case of what is just too much.
func TestABoundItselfIsAccepted(t *testing.T) {
	numbered := func(n int) []string {
		features := make([]string, n)
		for i := range features {
			features[i] = fmt.Sprintf("F%04d", i)
		}
		return features
	}
	most := manyAmounts()
	delete(most, "example.com/0")
	for name, test := range map[string]struct {
		change func(*v1alpha1.ClusterSummary)
		want   string
	}{
		"sources": {func(s *v1alpha1.ClusterSummary) {
			s.Status.Sources = make([]v1alpha1.SourceUsage, maxSources)
		}, ""},
		"features": {func(s *v1alpha1.ClusterSummary) { s.Status.DeclaredFeatures = numbered(maxFeatures) }, ""},
		"a feature twice": {
			func(s *v1alpha1.ClusterSummary) { s.Status.DeclaredFeatures = []string{"A", "A"} }, "not in order",
		},
		"a feature's length": {func(s *v1alpha1.ClusterSummary) {
			s.Status.DeclaredFeatures = []string{strings.Repeat("F", maxFeature)}
		}, ""},
		"a text that is shown": {func(s *v1alpha1.ClusterSummary) {
			s.Status.DeclaredFeatures = []string{strings.Repeat("f", 64)}
		}, `ff"`},
		"a version": {
			func(s *v1alpha1.ClusterSummary) { s.Status.KubernetesVersion = strings.Repeat("~", maxVersion) }, "",
		},
		"a version with a space": {
			func(s *v1alpha1.ClusterSummary) { s.Status.KubernetesVersion = "v1 37" }, "version",
		},
		"labels":                {func(s *v1alpha1.ClusterSummary) { s.Labels = labelsOf(maxText) }, ""},
		"a class without nodes": {func(s *v1alpha1.ClusterSummary) { s.Status.Classes[7].Nodes = 0 }, ""},
		"omitted labels": {func(s *v1alpha1.ClusterSummary) {
			s.Status.OmittedLabels = slices.Repeat([]string{strings.Repeat("k", 63)}, maxOmitted/63)
			s.Status.OmittedLabels = append(s.Status.OmittedLabels, strings.Repeat("k", maxOmitted%63))
		}, ""},
		"a UID": {
			func(s *v1alpha1.ClusterSummary) { s.Status.Sources[0].Latest[0] = strings.Repeat("u", maxUID) }, "",
		},
		"resources": {func(s *v1alpha1.ClusterSummary) { s.Status.Requested = most }, ""},
		"resources of devices": {func(s *v1alpha1.ClusterSummary) {
			for _, name := range numbered(maxDevices) {
				s.Status.DeviceResources = append(s.Status.DeviceResources, "example.com/"+name)
			}
		}, ""},
		"nothing":   {func(s *v1alpha1.ClusterSummary) { s.Capacity = amountsOf(corev1.ResourceMemory, "0") }, ""},
		"an amount": {func(s *v1alpha1.ClusterSummary) { s.Capacity = amountsOf(corev1.ResourceMemory, "1Ei") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			summary := validSummary()
			test.change(summary)
			err := CheckSummary(summary)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want %q", err, test.want)
			}
		})
	}
}

func manyAmounts() corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := range maxResources + 1 {
		all[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
	}
	return all
}

// FuzzCheckSummary checks that no summary makes CheckSummary panic, that its errors are short, and that what it accepts
// can be summed up.
func FuzzCheckSummary(f *testing.F) {
	for _, summary := range []*v1alpha1.ClusterSummary{validSummary(), {}} {
		encoded, err := json.Marshal(summary)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add(
		[]byte(
			`{"metadata":{"name":"singleton"},` +
				`"status":{"classes":[{"nodes":1,"free":[{"resources":{"cpu":"9e18"}}]}]}}`,
		),
	)
	f.Fuzz(func(t *testing.T, encoded []byte) {
		summary := &v1alpha1.ClusterSummary{}
		if json.Unmarshal(encoded, summary) != nil {
			return
		}
		if err := CheckSummary(summary); err != nil {
			if len(err.Error()) > 1024 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		for i := range summary.Status.Classes {
			for _, free := range summary.Status.Classes[i].Free {
				for name, quantity := range free.Resources {
					if quantity.Value() < 0 || name == corev1.ResourceCPU && quantity.MilliValue() < 0 ||
						free.Nodes < 0 {
						t.Errorf("%s of %s on %d nodes was accepted", quantity.String(), name, free.Nodes)
					}
				}
			}
		}
	})
}
