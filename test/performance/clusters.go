package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

const (
	namespace = "performance"
	program   = ".local/bin/clusters"
	// glance is the interval of polling, for states that no watch reports.
	glance = 50 * time.Millisecond
)

// source is the cluster in which the benchmark creates pods, and one of the targets. lonely is the target that can be
// cut off: no further target leads to it.
const (
	source = "c1"
	lonely = "c3"
)

func clusterNames() []string { return []string{source, "c2", lonely} }

type cluster struct {
	client client.Client
	set    *kubernetes.Clientset
}

type bench struct {
	options
	clusters map[string]*cluster
	measured []report.Result
	// idleCPU is what each cluster takes without pods, in seconds of CPU time per second.
	idleCPU map[string]float64
}

// newBench opens the clusters and removes the remains of an earlier run that was killed.
func newBench(ctx context.Context, o options) (*bench, error) {
	b := &bench{options: o, clusters: map[string]*cluster{}}
	for _, name := range clusterNames() {
		c, err := open(o.kubeconfig, name)
		if err != nil {
			return nil, fmt.Errorf("opening cluster %s (make bench-clusters starts it): %w", name, err)
		}
		b.clusters[name] = c
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
			v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}}}
		if err := c.client.Patch(ctx, ns, client.Merge); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("labelling namespace %s in %s: %w", namespace, name, err)
		} else if err != nil {
			if err := c.client.Create(ctx, ns); err != nil {
				return nil, fmt.Errorf("creating namespace %s in %s: %w", namespace, name, err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := b.restore(ctx); err != nil {
		return nil, fmt.Errorf("cleaning up after an earlier run: %w", err)
	}
	return b, b.untilReady(ctx, clusterNames(), metav1.ConditionTrue)
}

func open(kubeconfig, context string) (*cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	set, err := kubernetes.NewForConfig(config)
	return &cluster{client: c, set: set}, err
}

// close restores the clusters, also after a failure.
func (b *bench) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := b.restore(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "performance: cleaning up:", err)
	}
}

// restore ends partitions, removes the further targets and all Deployments and pods, and uncordons every virtual node.
func (b *bench) restore(ctx context.Context) error {
	if err := b.heal(ctx); err != nil {
		return err
	}
	if err := b.clearDeployments(ctx); err != nil {
		return err
	}
	if _, err := b.clear(ctx); err != nil {
		return fmt.Errorf("deleting pods: %w", err)
	}
	if err := b.removeFurther(ctx); err != nil {
		return err
	}
	return b.onlyTargets(ctx, clusterNames())
}

func (b *bench) source() client.Client { return b.clusters[source].client }

// onlyTargets cordons the virtual nodes of all other targets, uncordons those of these, and waits until the taints
// follow.
func (b *bench) onlyTargets(ctx context.Context, targets []string) error {
	nodes, err := b.virtualNodes(ctx)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		cordon := !slices.Contains(targets, node.Labels[v1alpha1.LabelClusterTargetName])
		if node.Spec.Unschedulable == cordon {
			continue
		}
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordon)
		if err := b.source().Patch(ctx, &node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("cordoning or uncordoning %s: %w", node.Name, err)
		}
	}
	return eventually(ctx, "virtual nodes are cordoned and uncordoned", func(ctx context.Context) (bool, error) {
		nodes, err := b.virtualNodes(ctx)
		return err == nil && !slices.ContainsFunc(nodes, func(node corev1.Node) bool {
			tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == corev1.TaintNodeUnschedulable
			})
			return tainted == slices.Contains(targets, node.Labels[v1alpha1.LabelClusterTargetName])
		}), err
	})
}

func (b *bench) virtualNodes(ctx context.Context) ([]corev1.Node, error) {
	nodes := &corev1.NodeList{}
	virtual := client.MatchingLabels{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
	err := b.source().List(ctx, nodes, virtual)
	if err != nil {
		return nil, fmt.Errorf("listing virtual nodes: %w", err)
	}
	return nodes.Items, nil
}

// clear deletes the pods, and waits until no pod and no PodChaperon is left in any cluster. It does not delete
// delegates, not even those in c1: ending them is the product's work.
func (b *bench) clear(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := b.source().DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.HasLabels{podLabel})
	if err != nil {
		return 0, err
	}
	err = b.untilEmpty(ctx)
	return time.Since(start), err
}

// clearDeployments deletes the Deployments, and their ReplicaSets.
func (b *bench) clearDeployments(ctx context.Context) error {
	in := client.InNamespace(namespace)
	background := client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := b.source().DeleteAllOf(ctx, &appsv1.Deployment{}, in, background); err != nil {
		return fmt.Errorf("deleting Deployments: %w", err)
	}
	if err := b.source().DeleteAllOf(ctx, &appsv1.ReplicaSet{}, in, background); err != nil {
		return fmt.Errorf("deleting ReplicaSets: %w", err)
	}
	return nil
}

func (b *bench) untilEmpty(ctx context.Context) error {
	return eventually(ctx, "no pod and no PodChaperon is left in namespace "+namespace+" of any cluster", b.empty)
}

func (b *bench) empty(ctx context.Context) (bool, error) {
	for name, c := range b.clusters {
		pods, chaperons := &corev1.PodList{}, &v1alpha1.PodChaperonList{}
		for _, list := range []client.ObjectList{pods, chaperons} {
			if err := c.client.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
				return false, fmt.Errorf("listing pods and PodChaperons in %s: %w", name, err)
			}
		}
		if len(pods.Items)+len(chaperons.Items) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// cut has all packets between the lonely cluster and the others dropped. This program still reaches that cluster.
func (b *bench) cut(ctx context.Context) error { return runClusters(ctx, "partition", lonely) }

func (b *bench) heal(ctx context.Context) error { return runClusters(ctx, "heal", lonely) }

func runClusters(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("running %s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// eventually polls until check returns true. The error says what was waited for.
func eventually(ctx context.Context, what string, check func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, glance, true, check)
	if ctx.Err() != nil {
		return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
	}
	return err
}
