// Package namespace makes and enters the Linux namespaces of a cluster: a network namespace and a mount namespace.
//
// The network namespace has a name as the program ip gives it. In the mount namespace, containerd and the kubelet find
// the folders that they require, such as /var/lib/kubelet, and share them neither with another cluster nor with the
// machine. The mounts of pods exist only in the mount namespace, and go with it.
//
// A namespace without processes stays because a file keeps it: its pin, on which the namespace is mounted.
package namespace
