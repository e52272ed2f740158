// Package cluster runs one Kubernetes cluster: etcd, the control plane, containerd, one kubelet and kube-proxy as ordinary
// processes in one network namespace and one control group, and kwok if nodes are to be simulated.
//
// Starting is idempotent and is also the repair: what does not run, or runs with another configuration, is started; what
// runs is left alone. There is no supervisor, so a component that dies stays dead until then, as failure tests need it.
package cluster
