package diagnosis

import "testing"

func TestASilentManagerIsSaid(t *testing.T) {
	reasons := []string{"node(s) had untolerated taint(s) {multicluster.admiralty.io/silent: }"}
	if got := FromPlugin("TaintToleration", reasons); got != "its manager is silent" {
		t.Errorf("got %q", got)
	}
}

func TestATargetThatDoesNotAnswerWellIsSaid(t *testing.T) {
	reasons := []string{"node(s) had untolerated taint(s) {multicluster.admiralty.io/unresponsive: }"}
	const want = "its API server does not answer well, so it gets no new pods for a while"
	if got := FromPlugin("TaintToleration", reasons); got != want {
		t.Errorf("got %q", got)
	}
}

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
			[]string{"node(s) had untolerated taint(s) {gpu: true}"},
			"its virtual node has a taint that the pod does not tolerate {gpu: true}",
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
