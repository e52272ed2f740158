package scheduling

import (
	"fmt"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// profile is admiralty-proxy: kube-scheduler's default arguments, but these plugins and no others, whatever its default
// plugins become. The weights are kube-scheduler's; resources are Admiralty's to judge, and preemption is the targets'.
func profile() (config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return config.KubeSchedulerProfile{}, fmt.Errorf("making the default configuration: %w", err)
	}
	p := defaults.Profiles[0]
	p.SchedulerName = v1alpha1.SchedulerName
	p.Plugins = &config.Plugins{
		MultiPoint: config.PluginSet{Enabled: []config.Plugin{
			{Name: names.PrioritySort},
			{Name: names.SchedulingGates},
			{Name: names.NodeName},
			{Name: names.NodeUnschedulable},
			{Name: names.TaintToleration, Weight: 3},
			{Name: names.NodeAffinity, Weight: 2},
			{Name: names.PodTopologySpread, Weight: 2},
			{Name: names.InterPodAffinity, Weight: 2},
			{Name: Name, Weight: 1},         // the last to filter, so that what it rejects all others accept
			{Name: turnsName, Weight: 1000}, // outweighs all others
		}},
	}
	for i := range p.PluginConfig {
		if spread, ok := p.PluginConfig[i].Args.(*config.PodTopologySpreadArgs); ok {
			spread.DefaultingType = config.ListDefaulting
		}
	}
	return p, nil
}
