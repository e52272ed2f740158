package cluster

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/kube"
)

const (
	fakeKey        = "kwok.x-k8s.io/node"
	fakeValue      = "fake"
	fakeNodePrefix = "kwok-"
	fakeNodesPath  = nodesPath + "?labelSelector=type%3Dkwok"
	nodesPath      = "/api/v1/nodes"

	parallelRequests = 16
)

type object = map[string]any

// node holds the fields of a Node that this package reads.
type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func (n node) ready() bool {
	for _, condition := range n.Status.Conditions {
		if condition.Type == "Ready" {
			return condition.Status == "True"
		}
	}
	return false
}

func (c *Cluster) node(ctx context.Context, client *kube.Client) (node, error) {
	var found node
	err := client.Get(ctx, nodesPath+"/"+c.Node(), &found)
	return found, err
}

// ensureFakeNodes creates or deletes simulated nodes until there are as many as wanted. It stops kwok if none is
// wanted.
func (c *Cluster) ensureFakeNodes(ctx context.Context, wanted FakeNodes) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	var list struct {
		Items []node `json:"items"`
	}
	if err := client.Get(ctx, fakeNodesPath, &list); err != nil {
		return fmt.Errorf("listing the simulated nodes of cluster %q: %w", c.name, err)
	}
	existing := map[string]bool{}
	for _, n := range list.Items {
		existing[n.Metadata.Name] = true
	}
	missing, surplus := compareNodes(existing, wanted.Count)
	err = inParallel(ctx, missing, func(ctx context.Context, name string) error {
		return client.Create(ctx, nodesPath, fakeNode(name, wanted))
	})
	if err != nil {
		return fmt.Errorf("creating the simulated nodes of cluster %q: %w", c.name, err)
	}
	err = inParallel(ctx, surplus, func(ctx context.Context, name string) error {
		return client.Delete(ctx, nodesPath+"/"+name)
	})
	if err != nil {
		return fmt.Errorf("deleting simulated nodes of cluster %q: %w", c.name, err)
	}
	if wanted.Count > 0 {
		return c.waitForFakeNodes(ctx, client, wanted.Count)
	}
	return c.stop(ctx, kwok)
}

func (c *Cluster) waitForFakeNodes(ctx context.Context, client *kube.Client, count int) error {
	return c.waitFor(ctx, fmt.Sprintf("%d simulated nodes are ready", count), func(ctx context.Context) bool {
		var list struct {
			Items []node `json:"items"`
		}
		if err := client.Get(ctx, fakeNodesPath, &list); err != nil {
			return false
		}
		ready := 0
		for _, n := range list.Items {
			if n.ready() {
				ready++
			}
		}
		return ready == count
	}, kwok)
}

// compareNodes returns the names of the simulated nodes that are missing for the count, and those beyond the count.
func compareNodes(existing map[string]bool, count int) (missing, surplus []string) {
	wanted := map[string]bool{}
	for i := range count {
		name := fakeNodePrefix + strconv.Itoa(i)
		wanted[name] = true
		if !existing[name] {
			missing = append(missing, name)
		}
	}
	for name := range existing {
		if !wanted[name] {
			surplus = append(surplus, name)
		}
	}
	return missing, surplus
}

func fakeNode(name string, like FakeNodes) object {
	resources := object{"cpu": like.CPU, "memory": like.Memory, "pods": strconv.Itoa(like.Pods)}
	return object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": object{
			"name":        name,
			"annotations": object{fakeKey: fakeValue},
			"labels": object{
				"type": "kwok", "kubernetes.io/hostname": name,
				"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			},
		},
		"spec":   object{"taints": []object{{"key": fakeKey, "value": fakeValue, "effect": "NoSchedule"}}},
		"status": object{"allocatable": resources, "capacity": resources},
	}
}

// inParallel calls do for each name, a few at a time. It returns one of the errors.
func inParallel(ctx context.Context, names []string, do func(context.Context, string) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, parallelRequests)
	var running sync.WaitGroup
	for _, name := range names {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := do(ctx, name); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
