// Package cluster runs one Kubernetes cluster. Its components are ordinary processes in one network namespace and one
// control group: etcd, the control plane, containerd, one kubelet, kube-proxy and CoreDNS. If nodes are simulated,
// kwok is one, too.
//
// Starting a cluster also repairs it. Start is idempotent: it starts the components that do not run or that run with
// another configuration, and does not touch the others. No supervisor restarts a component that dies, because tests of
// failures need it to stay dead until the next Start.
package cluster
