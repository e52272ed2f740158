// Package delegate tests what runs in a target cluster, the PodChaperon controller and the publication of capacity, in a manager
// with its real cache against a real API server. There is no kubelet and no garbage collector: the tests write the delegates'
// statuses and confirm their deletion themselves.
package delegate
