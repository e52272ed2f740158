package checker

import corev1 "k8s.io/api/core/v1"

// Node notes what the virtual node of a cluster says of its readiness. It is False only if the cluster is away for so
// long that the source may take it for lost. It is Unknown, too, if the cluster is away or refuses the source, the
// source has been silent for long enough, or its Kubernetes knows nothing of its own node either.
func (h *History) Node(cluster string, ready corev1.ConditionStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	away := h.away[cluster]
	switch {
	case ready == corev1.ConditionTrue || h.shownOfThePast(cluster):
	case ready == corev1.ConditionFalse && !away.lost(h.now()):
		h.violate(StaysReady, "the virtual node of %s is not Ready, and the cluster was away for %s", cluster,
			away.lasted(h.now()))
	case ready == corev1.ConditionUnknown && !away.counts(h.now()) && !h.refuses[cluster].counts(h.now()) &&
		!h.blind.counts(h.now()) &&
		!h.silent.any(h.now(), excusedFor, func(s spell) bool { return h.now().Sub(s.since) >= unknownAfter }):
		h.violate(StaysReady, "nobody knows whether the virtual node of %s is Ready, and nothing was broken", cluster)
	}
}

// OwnNode notes what the source's Kubernetes knows of its own node, whose kubelet nobody breaks. After an outage of its
// API server, the controllers of Kubernetes, and kube-proxy, look again up to two minutes late. Until then, they take
// all nodes for silent, and managers may not reach the API server.
func (h *History) OwnNode(ready corev1.ConditionStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if blind := ready == corev1.ConditionUnknown; blind != (h.blind.causes > 0) {
		h.blind.change(blind, h.now())
	}
}
