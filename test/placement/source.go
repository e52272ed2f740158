package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	namespace = "default"
	clusterID = "source"
	// placementTimeout is the default of the chart.
	placementTimeout = time.Minute
)

// source is the source cluster: its API server, and the product's scheduler with its targets.
type source struct {
	*apiServer
}

// newSource starts the source of these targets, with their policies. It runs until ctx ends.
func newSource(ctx context.Context, targets []*target, policies []*v1alpha1.PlacementPolicy) (*source, error) {
	s := &source{&apiServer{store: newStore("source")}}
	enabled := map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue}
	_, err := s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: enabled}})
	if err != nil {
		return nil, fmt.Errorf("creating the namespace: %w", err)
	}
	keys, registry := proof.Generate(time.Now()), engage.NewRegistry()
	scheduler, err := scheduling.New(scheduling.Options{
		Config: s.config(), Source: translate.Source{ClusterID: clusterID}, Registry: registry,
		Sign:     func(claim proof.Claim) (string, error) { return keys.Sign(claim), nil },
		Strategy: configv1alpha1.Spread, Timeout: placementTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("making the scheduler: %w", err)
	}
	for i, t := range targets {
		registry.SetPolicy(t.engaged, policies[i])
		s.follow(ctx, t)
		if err := registry.Engage(ctx, t.engaged); err != nil {
			return nil, fmt.Errorf("engaging %s: %w", t.name, err)
		}
	}
	go func() { _ = scheduler.Start(ctx) }()
	return s, nil
}

// follow keeps the virtual node of a target as the summary says, and proxies as their delegates have ended. In the
// product, package vk/node and package feedback do this.
func (s *source) follow(ctx context.Context, t *target) {
	_, _ = t.summaries.AddEventHandler(watch.OnAny(func(summary *v1alpha1.ClusterSummary) { s.show(t, summary) }))
	chaperons, _ := t.engaged.Cache.GetInformer(ctx, &v1alpha1.PodChaperon{})
	_, _ = chaperons.AddEventHandler(watch.OnAny(func(c *v1alpha1.PodChaperon) {
		proxy := &corev1.Pod{}
		parent := gate.ParentOf(c)
		proxy.Namespace, proxy.Name = parent.Key.Namespace, parent.Key.Name
		if preempted(c) {
			time.AfterFunc(stopTime, func() {
				_ = s.remove(refOf(proxy), &metav1.Preconditions{UID: &parent.UID})
				_ = t.remove(refOf(c), &metav1.Preconditions{UID: &c.UID})
			})
		}
		if !translate.Finished(c.Status.Phase) {
			return
		}
		_, _ = s.update(refOf(proxy), func(o client.Object) bool {
			pod, ok := o.(*corev1.Pod)
			if !ok || finished(pod) {
				return false
			}
			pod.Status.Phase = c.Status.Phase
			return true
		})
	}))
}

// preempted says whether a target ends the delegate for another one. The proxy ends with it.
func preempted(c *v1alpha1.PodChaperon) bool {
	lost := translate.PodCondition(c.Status.Conditions, v1alpha1.ConditionDelegate)
	return lost != nil && lost.Reason == v1alpha1.ReasonDelegateTerminating
}

// show makes the virtual node have the labels and the capacity of the target. No target has pods of others.
func (s *source) show(t *target, summary *v1alpha1.ClusterSummary) {
	wanted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: t.engaged.NodeName}}
	set := func(o client.Object) bool {
		n, ok := o.(*corev1.Node)
		if !ok || n.Status.Allocatable != nil && sameAmounts(n.Status.Allocatable, summary.Allocatable) {
			return false
		}
		n.Labels = node.Labels(t.engaged.Key, summary.Labels, nil, nil)
		n.Status.Capacity, n.Status.Allocatable = summary.Capacity, summary.Allocatable
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return true
	}
	if _, err := s.update(refOf(wanted), set); err != nil {
		wanted.Spec.Taints = []corev1.Taint{node.Taint()}
		set(wanted)
		_, _ = s.create(wanted)
	}
}

func sameAmounts(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, amount := range a {
		if other := b[name]; amount.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// admit creates an elected pod, as admission makes it.
func (s *source) admit(pod *corev1.Pod) error {
	proxy, err := translate.Proxy(pod)
	if err != nil {
		return fmt.Errorf("admitting pod %s: %w", pod.Name, err)
	}
	_, err = s.create(proxy)
	return err
}
