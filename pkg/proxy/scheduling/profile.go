package scheduling

import (
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// profile is admiralty-proxy: these plugins and no others, whatever kube-scheduler's defaults become. The weights are
// kube-scheduler's; what it prefers by resources in use is Admiralty's to judge.
func profile() config.KubeSchedulerProfile {
	resources := config.PluginSet{Enabled: []config.Plugin{{Name: names.NodeResourcesFit}}}
	return config.KubeSchedulerProfile{
		SchedulerName: v1alpha1.SchedulerName,
		Plugins: &config.Plugins{
			MultiPoint: config.PluginSet{Enabled: []config.Plugin{
				{Name: names.PrioritySort},
				{Name: names.SchedulingGates},
				{Name: names.NodeName},
				{Name: names.NodeUnschedulable},
				{Name: names.TaintToleration, Weight: 3},
				{Name: names.NodeAffinity, Weight: 2},
				{Name: Name, Weight: 1},
				{Name: names.PodTopologySpread, Weight: 2},
				{Name: names.InterPodAffinity, Weight: 2},
				{Name: names.DefaultPreemption},
			}},
			PreFilter: resources,
			Filter:    resources,
		},
		PluginConfig: []config.PluginConfig{{
			Name: names.PodTopologySpread,
			Args: &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting},
		}},
	}
}
