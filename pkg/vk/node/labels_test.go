package node_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
)

func TestLabels(t *testing.T) {
	base := func(more map[string]string) map[string]string {
		labels := map[string]string{
			"type":                        "virtual-kubelet",
			"virtual-kubelet.io/provider": "admiralty",
			"kubernetes.io/role":          "cluster",
			"node.kubernetes.io/exclude-from-external-load-balancers": "true",
		}
		for k, v := range more {
			labels[k] = v
		}
		return labels
	}
	clusterTarget := types.NamespacedName{Name: "c2"}
	for name, tc := range map[string]struct {
		key      types.NamespacedName
		summary  map[string]string
		excluded *regexp.Regexp
		allowed  func(string) bool
		want     map[string]string
	}{
		"a ClusterTarget": {
			key: clusterTarget,
			want: base(map[string]string{
				"kubernetes.io/hostname": "admiralty-c2", "multicluster.admiralty.io/cluster-target-name": "c2",
			}),
		},
		"a Target": {
			key: types.NamespacedName{Namespace: "default", Name: "c2"},
			want: base(map[string]string{
				"kubernetes.io/hostname":                     "admiralty-default-c2",
				"multicluster.admiralty.io/target-namespace": "default",
				"multicluster.admiralty.io/target-name":      "c2",
			}),
		},
		"the summary's labels are added, without excluded ones and those of one machine, and never override ours": {
			key: clusterTarget,
			summary: map[string]string{
				"topology.kubernetes.io/region":                  "eu",
				"team":                                           "a",
				"type":                                           "metal",
				"kubernetes.io/hostname":                         "node-1",
				"kubernetes.io/os":                               "linux",
				"kubernetes.io/arch":                             "amd64",
				"beta.kubernetes.io/os":                          "linux",
				"beta.kubernetes.io/arch":                        "amd64",
				"node-role.kubernetes.io/worker":                 "",
				"multicluster.admiralty.io/target-name":          "c3",
				"multicluster.admiralty.io/cluster-target-name":  "c3",
				"node-restriction.kubernetes.io/fips":            "true",
				"example.com.node-restriction.kubernetes.io/pci": "true",
				"secret": "yes",
			},
			excluded: regexp.MustCompile("^secret="),
			want: base(map[string]string{
				"kubernetes.io/hostname":                        "admiralty-c2",
				"multicluster.admiralty.io/cluster-target-name": "c2",
				"topology.kubernetes.io/region":                 "eu",
				"team":                                          "a",
			}),
		},
		"only allowed labels of a Target's nodes are added": {
			key: types.NamespacedName{Namespace: "default", Name: "c2"},
			summary: map[string]string{
				"topology.kubernetes.io/zone": "eu-1", "gpu": "a100", "node-restriction.kubernetes.io/gpu": "a100",
			},
			allowed: func(label string) bool { return strings.HasSuffix(label, "gpu") },
			want: base(map[string]string{
				"kubernetes.io/hostname":                     "admiralty-default-c2",
				"multicluster.admiralty.io/target-namespace": "default",
				"multicluster.admiralty.io/target-name":      "c2",
				"gpu":                                        "a100",
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, node.Labels(tc.key, tc.summary, tc.excluded, tc.allowed)); diff != "" {
				t.Errorf("unexpected labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLabelsOfLongNamesAreValid(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{
		strings.Repeat("a", 200) + "1", strings.Repeat("a", 200) + "2", strings.Repeat("a.", 31) + "x",
	} {
		labels := node.Labels(types.NamespacedName{Name: name}, nil, nil, nil)
		for key, value := range labels {
			if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
				t.Errorf("label %s=%s: %v", key, value, msgs)
			}
		}
		if seen[labels[corev1.LabelHostname]] {
			t.Errorf("two virtual nodes have the hostname label %q", labels[corev1.LabelHostname])
		}
		seen[labels[corev1.LabelHostname]] = true
	}
}

func TestTaint(t *testing.T) {
	if got := node.Taint(); got.ToString() != "virtual-kubelet.io/provider=admiralty:NoSchedule" {
		t.Errorf("Taint() = %v", got.ToString())
	}
}
