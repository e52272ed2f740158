// Package restart starts the process again inside its container.
//
// A process that ends costs more than its start: the kubelet waits before it starts a container again, longer each
// time, up to five minutes. With no manager for longer than the grace period of nodes, 40 s, Kubernetes takes all
// proxies for not ready. So a manager that lost its Lease, or whose API server went away, replaces itself by execve.
// This ends all threads at once, as an exit does, so nothing of the old process goes on. Standard output, the pod and
// its address stay.
//
// A supervisor as a parent process was rejected: it needs to pass on signals, doubles what is to be understood, and can
// fail itself. Starting the parts anew in the same process was rejected, too: nobody can prove that nothing of the
// former leader goes on.
//
// The kubelet does not count these starts. The log does, and so does a metric. Panics, kills for lack of memory and
// failed liveness probes still end the container.
package restart
