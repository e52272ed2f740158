package diagnosis

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTheTaintThatKeepsAPodAwayIsSaid(t *testing.T) {
	for key, want := range map[string]string{
		v1alpha1.TaintSilent:         "its manager is silent",
		v1alpha1.TaintUnresponsive:   "its API server does not answer well",
		corev1.TaintNodeNotReady:     "its virtual node is not ready",
		corev1.TaintNodeOutOfService: "its virtual node has the taint " + corev1.TaintNodeOutOfService + tolerated,
		"gpu":                        "its virtual node has the taint gpu" + tolerated,
	} {
		t.Run(key, func(t *testing.T) {
			if got := Tainted(corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}); got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

const tolerated = ", which the pod does not tolerate"

func TestReasonsOfKubeSchedulersPluginsAreAboutClusters(t *testing.T) {
	for plugin, test := range map[string]struct {
		reasons []string
		want    string
	}{
		"NodeUnschedulable": {[]string{"node(s) were unschedulable"}, "cordoned"},
		"NodeAffinity": {
			[]string{"node(s) didn't match Pod's node affinity/selector"},
			"does not match the pod's constraints on clusters",
		},
		"PodTopologySpread": {
			[]string{"node(s) didn't match pod topology spread constraints"},
			"does not match the pod's topology spread constraints on clusters",
		},
		"InterPodAffinity": {
			[]string{"node(s) didn't match pod affinity rules"},
			"does not match the pod's affinity to pods on clusters",
		},
		"TaintToleration": {
			[]string{"node(s) had untolerated taint(s)"},
			"its virtual node has a taint that the pod does not tolerate",
		},
		"NodeName": {
			[]string{"node(s) didn't match the requested node name", "sorry"},
			"kube-scheduler says: node(s) didn't match the requested node name, sorry",
		},
	} {
		t.Run(plugin, func(t *testing.T) {
			if got := FromPlugin(plugin, test.reasons); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
