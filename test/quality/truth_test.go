package quality

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	if err := utilfeature.DefaultMutableFeatureGate.Set("TaintTolerationComparisonOperators=true"); err != nil {
		fmt.Fprintln(os.Stderr, "enabling the comparison operators of tolerations:", err)
		os.Exit(1)
	}
	metrics.Register()
	os.Exit(m.Run())
}

// kubeScheduler is the framework of the real kube-scheduler with its default profile. The plugins that need an API
// server are left out: those for volumes and dynamic resources.
type kubeScheduler struct {
	ctx       context.Context // of the test
	framework framework.Framework
	nodes     *lister
}

// lister lists the nodes of one cluster after the other.
type lister struct{ fwk.SharedLister }

func newKubeScheduler(t *testing.T) *kubeScheduler {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal("making the default configuration:", err)
	}
	profile := defaults.Profiles[0]
	profile.Plugins.MultiPoint.Disabled = nil
	needAPI := []string{
		names.DynamicResources, names.VolumeBinding, names.NodeVolumeLimits, names.VolumeZone, names.VolumeRestrictions,
	}
	enabled := &profile.Plugins.MultiPoint.Enabled
	*enabled = slices.DeleteFunc(*enabled, func(p config.Plugin) bool { return slices.Contains(needAPI, p.Name) })
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(c config.PluginConfig) bool {
		return slices.Contains(needAPI, c.Name)
	})
	clientset, nodes := fake.NewClientset(), &lister{cache.NewEmptySnapshot()}
	ctx := quiet(t.Context())
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithClientSet(clientset),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(clientset, 0)),
		frameworkruntime.WithSnapshotSharedLister(nodes),
	)
	if err != nil {
		t.Fatal("making the framework:", err)
	}
	return &kubeScheduler{ctx, f, nodes}
}

// quiet discards the log, which would be about tolerations that cannot be parsed.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// see makes this the scheduler of a cluster, and returns the cluster's nodes.
func (s *kubeScheduler) see(c *cluster) []fwk.NodeInfo {
	snapshot := cache.NewSnapshot(c.assigned(), c.real())
	s.nodes.SharedLister = snapshot
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		panic(err) // cannot happen: the snapshot is in memory
	}
	slices.SortFunc(infos, func(a, b fwk.NodeInfo) int { return cmp.Compare(a.Node().Name, b.Node().Name) })
	return infos
}

// feasible returns the nodes on which the pod fits, or only the first of them.
func (s *kubeScheduler) feasible(infos []fwk.NodeInfo, pod *corev1.Pod, one bool) ([]fwk.NodeInfo, fwk.CycleState) {
	state := framework.NewCycleState()
	result, status, _ := s.framework.RunPreFilterPlugins(s.ctx, state, pod)
	if !status.IsSuccess() {
		if status.Code() == fwk.Error {
			panic(status.AsError())
		}
		return nil, state
	}
	var feasible []fwk.NodeInfo
	for _, info := range infos {
		if !result.AllNodes() && !result.NodeNames.Has(info.Node().Name) {
			continue
		}
		status := s.framework.RunFilterPlugins(s.ctx, state, pod, info)
		if status.Code() == fwk.Error {
			panic(status.AsError())
		}
		if status.IsSuccess() {
			if feasible = append(feasible, info); one {
				break
			}
		}
	}
	return feasible, state
}

// fits reports whether the pod fits on one of the nodes.
func (s *kubeScheduler) fits(infos []fwk.NodeInfo, pod *corev1.Pod) bool {
	feasible, _ := s.feasible(infos, pod, true)
	return len(feasible) > 0
}

// place puts the pod on the best node, or on any of the best. It returns false if the pod fits nowhere.
func (s *kubeScheduler) place(infos []fwk.NodeInfo, pod *corev1.Pod, random *rand.Rand) bool {
	feasible, state := s.feasible(infos, pod, false)
	if len(feasible) == 0 {
		return false
	}
	if status := s.framework.RunPreScorePlugins(s.ctx, state, pod, feasible); !status.IsSuccess() {
		panic(status.AsError())
	}
	scores, status := s.framework.RunScorePlugins(s.ctx, state, pod, feasible)
	if !status.IsSuccess() {
		panic(status.AsError())
	}
	most := slices.MaxFunc(scores, func(a, b fwk.NodePluginScores) int {
		return cmp.Compare(a.TotalScore, b.TotalScore)
	})
	best := slices.DeleteFunc(scores, func(s fwk.NodePluginScores) bool { return s.TotalScore < most.TotalScore })
	name := best[random.IntN(len(best))].Name
	placed := pod.DeepCopy()
	placed.Spec.NodeName = name
	podInfo, err := framework.NewPodInfo(placed)
	if err != nil {
		panic(err)
	}
	at := slices.IndexFunc(infos, func(i fwk.NodeInfo) bool { return i.Node().Name == name })
	infos[at].AddPodInfo(podInfo)
	return true
}
