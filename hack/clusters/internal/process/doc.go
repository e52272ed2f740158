// Package process starts the components of a cluster as ordinary processes that outlive the program which started them,
// and finds them again. A record holds a process's ID and the time of its start, since IDs are used again.
//
// A process is started through a trampoline, the hidden command "exec" of this program: it joins the cluster's control
// group and namespaces before it becomes the component, so that no child can be born outside them.
package process
