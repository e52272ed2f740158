// Package namespace makes and enters the Linux namespaces of a cluster: one network namespace, named as the program ip
// names them, and one mount namespace, in which containerd and the kubelet find the folders that they insist on (such as
// /var/lib/kubelet) without sharing them with another cluster or with the machine. The mounts of pods live and die with it.
//
// A mount namespace that nothing runs in is kept by a file on which it is mounted, its pin.
package namespace
