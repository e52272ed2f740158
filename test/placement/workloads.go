package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// The usual sizes of nodes.
var (
	smallNode = size{cpu: 4000, memory: 16 << 10}   //nolint:gochecknoglobals // a constant
	usualNode = size{cpu: 16000, memory: 64 << 10}  //nolint:gochecknoglobals // a constant
	largeNode = size{cpu: 64000, memory: 256 << 10} //nolint:gochecknoglobals // a constant
)

// fleet adds clusters of the usual nodes.
func (g *generator) fleet(clusters, least, most int) {
	for range clusters {
		g.cluster().add(g.between(least, most), usualNode)
	}
}

// pod returns the size of a usual pod.
func (g *generator) pod() size {
	cpu := int64(250 * g.between(1, 12))
	return size{cpu: cpu, memory: cpu * int64(g.between(1, 4))}
}

// deployments adds Deployments that request so many CPUs, in the first minutes.
func (g *generator) deployments(cpus int64) {
	for cpus > 0 {
		at := time.Duration(g.IntN(120)) * time.Second
		switch g.IntN(4) {
		case 0:
			cpus -= g.pods(g.between(2, 40), at, g.pod(), spread)
		case 1:
			cpus -= g.pods(g.between(2, 6), at, g.pod(), apart)
		default:
			cpus -= g.pods(g.between(1, 30), at, g.pod())
		}
	}
}

// share returns a part of a number.
func share(of int64, part float64) int64 { return int64(float64(of) * part) }

// services are Deployments that request a part of all CPUs.
func services(clusters int, part float64) func(*generator) {
	return func(g *generator) {
		if clusters < 100 {
			g.fleet(clusters, 4, 12)
		} else {
			g.fleet(clusters, 1, 2) // It takes too long otherwise.
		}
		g.deployments(share(g.cpus(), part))
	}
}

// mixed are clusters and pods of all kinds, which request 80 % of all CPUs, or a part of that.
func mixed(clusters int, part float64) func(*generator) {
	return func(g *generator) {
		for range clusters {
			c := g.cluster()
			c.add(g.between(2, 10), smallNode, labelled(corev1.LabelTopologyZone, "a"))
			c.add(g.between(0, 4), usualNode, labelled(corev1.LabelTopologyZone, "b"))
			c.add(g.between(0, 1), largeNode, labelled("disk", "ssd"), tainted("large"))
			if g.IntN(3) == 0 {
				c.add(g.between(1, 3), size{cpu: 32000, memory: 128 << 10, gpus: 4}, tainted(string(gpu)))
			}
		}
		all := g.cpus()
		g.deployments(share(all, 0.3*part))
		g.special(share(all, 0.3*part))
		g.jobs(share(all, 0.2*part), time.Minute)
	}
}

// special adds pods for the nodes that others cannot use, or not all.
func (g *generator) special(cpus int64) {
	for cpus > 0 {
		at := time.Duration(g.IntN(180)) * time.Second
		switch g.IntN(4) {
		case 0:
			cpus -= g.pods(g.between(1, 4), at, size{4000, 8 << 10, int64(g.between(1, 4))}, tolerating(string(gpu)))
		case 1:
			cpus -= g.pods(g.between(1, 4), at, size{cpu: 12000, memory: 32 << 10}, tolerating("large"))
		case 2:
			cpus -= g.pods(g.between(1, 10), at, g.pod(), tolerating("large"), selecting("disk", "ssd"))
		default:
			cpus -= g.pods(g.between(1, 10), at, g.pod(), selecting(corev1.LabelTopologyZone, "b"))
		}
	}
}

// jobs adds pods that end by themselves and request so many CPUs, during some time.
func (g *generator) jobs(cpus int64, during time.Duration) {
	for cpus > 0 {
		at := time.Duration(g.IntN(int(during/time.Second))) * time.Second
		lasts := time.Duration(g.between(20, 90)) * time.Second
		cpus -= g.pods(g.between(1, 20), at, g.pod(), lasting(lasts))
	}
}

// batch are jobs for three minutes that request a part of all CPUs at any time. They last 55 s on average.
func batch(clusters int, part float64) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 3, 5)
		g.jobs(share(g.cpus(), part*180/55), 3*time.Minute)
	}
}

// bigPods are pods that need a whole node, behind small ones that end by themselves and keep coming.
func bigPods(clusters int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 4, 8)
		for at := time.Duration(0); at < 3*time.Minute; at += time.Second {
			n := int(share(g.cpus(), 0.9)) / 500 / 60
			g.pods(n, at, size{cpu: 500, memory: 1 << 10}, lasting(time.Minute))
		}
		for range clusters {
			at := time.Duration(g.between(30, 90)) * time.Second
			g.pods(g.between(1, 3), at, size{cpu: 15000, memory: 48 << 10}, lasting(time.Minute))
		}
	}
}

// bigPod is a pod that needs half a node, among small ones that take each bit of room that is released. They last for
// some minutes each, and keep coming for ten times as long.
func bigPod(clusters, minutes int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 4, 4)
		one := time.Duration(minutes) * time.Minute
		small := size{cpu: share(g.cpus(), 0.8) / 200, memory: 1 << 10}
		for at := time.Duration(0); at < 10*one; at += one / 20 {
			lasts := one * time.Duration(g.between(50, 70)) / 60
			g.pods(10, at, small, lasting(lasts))
		}
		g.pods(1, 2*one, size{cpu: usualNode.cpu / 2, memory: usualNode.memory / 2})
	}
}

// gangs are pods that belong together, and request 80 % of all CPUs at any time.
func gangs(clusters int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 5, 8)
		for left := share(g.cpus(), 0.8*240/65); left > 0; {
			at, first := time.Duration(g.IntN(240))*time.Second, len(g.arrivals)
			s := size{cpu: int64(1000 * g.between(1, 4)), memory: 4 << 10}
			left -= g.pods(g.between(8, 24), at, s, together, lasting(time.Minute))
			for _, a := range g.arrivals[first:] {
				a.gang = a.kind
			}
		}
	}
}

// growing are small clusters with autoscalers.
func growing(clusters int) func(*generator) {
	return func(g *generator) {
		for range clusters {
			c := g.cluster()
			c.add(2, usualNode)
			c.grows = &nodeGroup{size: usualNode, most: g.between(4, 10)}
			has := newNode("", "", usualNode)
			class := v1alpha1.ScaleUpNodeClass{
				Labels: map[string]string{ofCluster: c.name}, Allocatable: has.Status.Allocatable,
			}
			c.policy = &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{
				Timeout:     &metav1.Duration{Duration: 5 * time.Minute},
				NodeClasses: []v1alpha1.ScaleUpNodeClass{class},
			}}
		}
		g.deployments(3 * g.cpus())
	}
}

// beside are clusters with autoscalers, of which only the last has nodes that can hold the pods beside those of
// DaemonSets. All could hold them otherwise.
func beside(clusters int) func(*generator) {
	return func(g *generator) {
		for i := range clusters {
			c, s := g.cluster(), usualNode
			if i == clusters-1 {
				s = largeNode
			}
			c.add(1, s)
			c.grows, c.daemons = &nodeGroup{size: s, most: 4}, size{cpu: 1000, memory: 1 << 10}
			c.policy = &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}}
		}
		g.pods(g.between(6, 12), 0, size{cpu: 15500, memory: 32 << 10})
	}
}

// quotas are clusters whose quotas no summary shows.
func quotas(clusters int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 4, 8)
		var room int64
		for _, c := range g.clusters {
			c.quota = share(c.cpus(), float64(g.between(3, 9))/10)
			room += c.quota
		}
		g.deployments(share(room, 0.9))
	}
}

// priorities are clusters that are full when more important pods come, some of them big.
func priorities(clusters int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 4, 8)
		g.deployments(g.cpus())
		for left := share(g.cpus(), 0.4); left > 0; {
			at := time.Duration(g.between(150, 240)) * time.Second
			if g.IntN(4) == 0 {
				left -= g.pods(g.between(1, 3), at, size{cpu: 12000, memory: 32 << 10}, matters)
			} else {
				left -= g.pods(g.between(2, 12), at, g.pod(), matters)
			}
		}
	}
}

// queues are clusters of which two hold delegates back.
func queues(clusters int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 4, 8)
		room := g.cpus()
		for _, c := range g.clusters[:2] {
			c.queue = c.cpus() / 2
			room -= c.queue
		}
		g.deployments(share(room, 0.9))
	}
}

// queued is one cluster that holds all delegates back, beside others with room for all pods.
func queued(clusters int) func(*generator) {
	return func(g *generator) {
		g.fleet(clusters, 4, 8)
		g.clusters[0].queue = 1
		g.deployments(share(g.cpus()-g.clusters[0].cpus(), 0.7))
	}
}

// alone is a cluster with one node, and a Deployment whose pods are on different nodes. The cluster can add nodes.
func alone(g *generator) {
	c := g.cluster()
	c.add(1, usualNode)
	c.grows = &nodeGroup{size: usualNode, most: 2}
	c.policy = &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}}
	g.pods(3, 0, size{cpu: 1000, memory: 1 << 10}, apart)
}
