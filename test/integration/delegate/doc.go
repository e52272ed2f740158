// Package delegate tests the parts that run in a target, the PodChaperon controller and the publication of capacity,
// in a manager with its real cache against a real API server. The tests play the kubelet: they write the statuses of
// delegates and confirm their deletion.
package delegate
