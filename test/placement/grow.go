package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
)

const (
	// growInterval is how often an autoscaler looks for pods that fit nowhere, and nodeTime how long a new node takes.
	growInterval, nodeTime = 10 * time.Second, time.Minute
)

// nodeGroup is a group of nodes to which an autoscaler adds. It removes none.
type nodeGroup struct {
	cluster string
	size    size
	daemons size // what the pods of DaemonSets request on each node
	most    int  // nodes that can be added
	added   int
}

// autoscaler adds nodes for pods that fit nowhere. It looks at CPUs and memory only.
type autoscaler struct {
	kube   *kube
	groups []*nodeGroup
	// coming are the nodes that are on their way, with what is left of them.
	coming []*comingNode
	served map[string]bool // the UIDs of pods for which there are nodes on their way
}

type comingNode struct {
	left size
	at   time.Time
}

func (a *autoscaler) run(ctx context.Context) {
	a.served = map[string]bool{}
	for pause(ctx, growInterval) {
		a.coming = slices.DeleteFunc(a.coming, func(n *comingNode) bool { return !n.at.After(time.Now()) })
		if len(a.coming) == 0 {
			clear(a.served)
		}
		for _, pod := range a.kube.waiting() {
			if !a.served[string(pod.UID)] && a.serve(pod) {
				a.served[string(pod.UID)] = true
			}
		}
	}
}

// waiting returns the pods that fit nowhere, in the order of the queue.
func (k *kube) waiting() []*corev1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var pods []*corev1.Pod
	for _, p := range k.parked {
		pods = append(pods, p.pod)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(compare(a, b), strings.Compare(a.Name, b.Name))
	})
	return pods
}

// serve finds a node for a pod among those that are on their way, or orders one.
func (a *autoscaler) serve(pod *corev1.Pod) bool {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	cpu, memory := requests.Cpu().MilliValue(), requests.Memory().Value()>>20
	for _, n := range a.coming {
		if n.left.cpu >= cpu && n.left.memory >= memory {
			n.left.cpu, n.left.memory = n.left.cpu-cpu, n.left.memory-memory
			return true
		}
	}
	for _, group := range a.groups {
		left := group.empty()
		if group.added < group.most && left.cpu >= cpu && left.memory >= memory {
			a.order(group)
			return a.serve(pod)
		}
	}
	return false
}

func (a *autoscaler) order(group *nodeGroup) {
	group.added++
	a.coming = append(a.coming, &comingNode{left: group.empty(), at: time.Now().Add(nodeTime)})
	node := newNode(fmt.Sprintf("%s-new-%d", group.cluster, group.added), group.cluster, group.size)
	time.AfterFunc(nodeTime, func() { _ = createNode(a.kube.store, node, group.daemons) })
}

// empty is what a new node has for pods that are not of DaemonSets.
func (g *nodeGroup) empty() size {
	return size{cpu: g.size.cpu - g.daemons.cpu, memory: g.size.memory - g.daemons.memory}
}
