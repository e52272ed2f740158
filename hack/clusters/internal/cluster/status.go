package cluster

import (
	"context"
	"fmt"
	"strings"
)

// Status is the state of a cluster, seen from outside.
type Status struct {
	Name, Server string
	// Up and Down are the components that run and those that do not.
	Up, Down []string
	// Partitioned is true while a partition cuts the cluster off from the others.
	Partitioned bool
	// Isolated is true while pods are cut off from the API server.
	Isolated bool
	// Limited is true while the rate of the cluster's link is bounded.
	Limited bool
	// Reachable is true if the API server answered. Only then are the fields below it known.
	Reachable bool
	NodeReady bool
	FakeNodes int
	Pods      int
	// Version is the API server's version of Kubernetes.
	Version string
}

// Status returns the state of the cluster. An API server that does not answer is no error.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	status := Status{Name: c.name, Server: c.Server()}
	spec, err := c.Spec()
	if err != nil {
		return status, err
	}
	for _, component := range append(c.foundation(spec), c.rest(spec)...) {
		record, err := c.record(component.name)
		if err != nil {
			return status, err
		}
		if record.Alive() {
			status.Up = append(status.Up, component.name)
		} else {
			status.Down = append(status.Down, component.name)
		}
	}
	if status.Partitioned, err = c.Network().Partitioned(ctx, c.name); err != nil {
		return status, err
	}
	if status.Limited, err = c.Network().Limited(ctx, c.name); err != nil {
		return status, err
	}
	if status.Isolated, err = c.Network().Isolated(ctx, c.name); err != nil {
		return status, err
	}
	c.ask(ctx, &status)
	return status, nil
}

func (c *Cluster) ask(ctx context.Context, status *Status) {
	client, err := c.Client()
	if err != nil {
		return
	}
	var nodes struct {
		Items []node `json:"items"`
	}
	var pods struct {
		Items []struct{} `json:"items"`
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if client.Get(ctx, nodesPath, &nodes) != nil || client.Get(ctx, "/api/v1/pods", &pods) != nil ||
		client.Get(ctx, "/version", &version) != nil {
		return
	}
	status.Version = version.GitVersion
	status.Reachable = true
	for _, n := range nodes.Items {
		if n.Metadata.Name == c.Node() {
			status.NodeReady = n.ready()
		}
		if strings.HasPrefix(n.Metadata.Name, fakeNodePrefix) {
			status.FakeNodes++
		}
	}
	status.Pods = len(pods.Items)
}

// Row returns the status as the cells of a table, in the order of Header.
func (s Status) Row() []string {
	components := fmt.Sprintf("%d up", len(s.Up))
	if len(s.Down) > 0 {
		components += ", down: " + strings.Join(s.Down, " ")
	}
	network := "connected"
	switch {
	case s.Partitioned:
		network = "partitioned"
	case s.Limited:
		network = "limited"
	case s.Isolated:
		network = "pods isolated"
	}
	if !s.Reachable {
		return []string{s.Name, components, network, s.Server, "-", "unknown", "-", "-"}
	}
	ready := "not ready"
	if s.NodeReady {
		ready = "ready"
	}
	return []string{
		s.Name, components, network, s.Server, s.Version, ready, fmt.Sprint(s.FakeNodes), fmt.Sprint(s.Pods),
	}
}

// Header returns the titles of the cells of Row.
func Header() []string {
	return []string{"CLUSTER", "COMPONENTS", "NETWORK", "API SERVER", "KUBERNETES", "NODE", "SIMULATED NODES", "PODS"}
}
