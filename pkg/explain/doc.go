// Package explain remembers why pods are where they are, or nowhere: what the scheduler saw of the targets, what it tried there and what they
// answered. The scheduler tells, the kubelet API serves it, and `kubectl multicluster explain` prints it.
//
// It lives in the leader's memory alone. Writing it to the API server would cost a write per pod and look, for something that few pods are ever
// asked about; what matters most is in the pod's event and condition, which survive a change of leaders.
//
// Memory is bounded by pods and by targets told of them. A placed pod is explained by the best targets, a pending one by all, because of it
// people ask about each target.
package explain
