// Package process starts the components of a cluster as ordinary processes, which outlive the program that started
// them, and finds them again. A record contains the ID of a process and the time of its start, because the kernel
// reuses IDs.
//
// A process starts through a trampoline, the hidden command "exec" of this program. The trampoline joins the cluster's
// control group and namespaces before it becomes the component, so no child can start outside them.
package process
