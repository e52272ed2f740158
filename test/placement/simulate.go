package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// warmUp is how long clusters have to publish their capacity before the first pod comes.
const warmUp = 10 * time.Second

// side is the fleet, or the one flat cluster of the same nodes.
type side struct {
	store  *store // where users create pods
	create func(*corev1.Pod) error
	sample func()
	usage  func() []float64
}

// run gives a side the pods of a scenario, and observes what becomes of them.
func run(ctx context.Context, s scenario, g *generator, ob *observer, of side) (figures, error) {
	ob.replace(of)
	arrivals := slices.Clone(g.arrivals)
	slices.SortStableFunc(arrivals, func(a, b *arrival) int { return int(a.at - b.at) })
	pause(ctx, warmUp)
	start := time.Now()
	var imbalance float64
	last := arrivals[len(arrivals)-1].at
	measured := false
	for next, now := 0, time.Duration(0); now <= s.horizon; now += sampleInterval {
		for ; next < len(arrivals) && arrivals[next].at <= now; next++ {
			pause(ctx, time.Until(start.Add(arrivals[next].at)))
			ob.expect(arrivals[next])
			if err := of.create(arrivals[next].pod); err != nil {
				return figures{}, err
			}
		}
		pause(ctx, time.Until(start.Add(now)))
		of.sample()
		if !measured && now >= last {
			imbalance, measured = deviation(of.usage()), true
		}
		if waiting, _ := ob.waiting(); len(waiting) == 0 && next == len(arrivals) {
			break
		}
	}
	f := ob.figures()
	f.imbalance = imbalance
	return f, nil
}

// deviation returns the standard deviation.
func deviation(of []float64) float64 {
	var sum, squares float64
	for _, x := range of {
		sum, squares = sum+x, squares+x*x
	}
	n := float64(len(of))
	return math.Sqrt(max(0, squares/n-sum/n*sum/n))
}

// simulateFleet simulates a source with a target for each cluster, and the product between them.
func simulateFleet(ctx context.Context, s scenario) (figures, error) {
	g, ob := s.made(), newObserver()
	var targets []*target
	var policies []*v1alpha1.PlacementPolicy
	var stores []*store
	for i, c := range g.clusters {
		t, err := newTarget(ctx, c, s.seed+uint64(i))
		if err != nil {
			return figures{}, err
		}
		ob.followTarget(t)
		targets, policies, stores = append(targets, t), append(policies, c.policy), append(stores, t.store)
	}
	from, err := newSource(ctx, targets, policies)
	if err != nil {
		return figures{}, err
	}
	ob.follow(from.store)
	f, err := run(ctx, s, g, ob, side{
		store:  from.store,
		create: from.admit,
		sample: func() { ob.sample(ctx, targets) },
		usage:  func() []float64 { return usage(g.clusters, stores...) },
	})
	f.conditions = float64(from.conditions.Load()) / float64(f.pods+f.preempted)
	return f, err
}

// simulateFlat simulates one cluster that has all nodes. It has no quotas and no queues.
func simulateFlat(ctx context.Context, s scenario) (figures, error) {
	g, ob, flat := s.made(), newObserver(), newStore("flat")
	var groups []*nodeGroup
	for _, c := range g.clusters {
		if err := createNodes(flat, c); err != nil {
			return figures{}, err
		}
		if c.grows != nil {
			groups = append(groups, c.group())
		}
	}
	k, err := newKube(ctx, flat, s.seed)
	if err != nil {
		return figures{}, err
	}
	startKubelets(flat)
	if len(groups) > 0 {
		go (&autoscaler{kube: k, groups: groups}).run(ctx)
	}
	ob.follow(flat)
	return run(ctx, s, g, ob, side{
		store: flat,
		create: func(pod *corev1.Pod) error {
			_, err := flat.create(pod)
			return err
		},
		sample: func() {},
		usage:  func() []float64 { return usage(g.clusters, flat) },
	})
}

func createNodes(s *store, c *cluster) error {
	for _, node := range c.nodes {
		if err := createNode(s, node, c.daemons); err != nil {
			return err
		}
	}
	return nil
}

// createNode creates a node, and a pod of a DaemonSet there.
func createNode(s *store, node *corev1.Node, daemons size) error {
	if _, err := s.create(node); err != nil {
		return fmt.Errorf("creating a node: %w", err)
	}
	if daemons == (size{}) {
		return nil
	}
	if _, err := s.create(daemon(node, daemons)); err != nil {
		return fmt.Errorf("creating the pod of a DaemonSet: %w", err)
	}
	return nil
}

func (c *cluster) group() *nodeGroup {
	group := *c.grows
	group.cluster, group.daemons = c.name, c.daemons
	return &group
}
